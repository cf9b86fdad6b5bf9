#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "core/sha256_blocks.h"
#include "podaq/core/crc32c.h"
#include "podaq/core/sha256.h"

namespace podaq {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// RFC 3720, appendix B.4, and the customary check value.
TEST(Crc32c, KnownAnswers) {
  EXPECT_EQ(crc32c({}), 0U);
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xE3069283U);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0})), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0xFF})), 0x62A8AB43U);
}

TEST(Crc32c, GoesOnFromAFirstPart) {
  const std::string text = "prune, then quantize";
  for (std::size_t split = 0; split <= text.size(); ++split) {
    const std::string_view whole = text;
    EXPECT_EQ(crc32c(bytes_of(whole.substr(split)), crc32c(bytes_of(whole.substr(0, split)))), crc32c(bytes_of(whole)));
  }
}

// FIPS 180-4's examples; the last is a million times "a".
TEST(Sha256, KnownAnswers) {
  EXPECT_EQ(to_hexadecimal(sha256({})), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(to_hexadecimal(sha256(bytes_of("abc"))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(to_hexadecimal(sha256(bytes_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"))),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(to_hexadecimal(sha256(bytes_of(std::string(1'000'000, 'a')))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesGiveTheDigestOfTheWhole) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += static_cast<char>(i);
  for (std::size_t length = 0; length <= text.size(); ++length) {
    const std::string_view whole = std::string_view(text).substr(0, length);
    Sha256 hash;
    for (std::size_t begin = 0; begin < length; begin += 37) hash.update(bytes_of(whole.substr(begin, 37)));
    EXPECT_EQ(hash.digest(), sha256(bytes_of(whole))) << length;
  }
}

TEST(Sha256, GoesOnAfterADigest) {
  Sha256 hash;
  hash.update(bytes_of("a"));
  EXPECT_EQ(hash.digest(), sha256(bytes_of("a")));
  hash.update(bytes_of("bc"));
  EXPECT_EQ(hash.digest(), sha256(bytes_of("abc")));
}

TEST(Sha256, IsTheSameByTheCpusInstructions) {
  std::mt19937_64 engine(1);
  for (std::size_t blocks = 0; blocks < 20; ++blocks) {
    std::vector<std::byte> bytes(64 * blocks);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(engine());
    sha256_detail::State fast{};
    for (std::uint32_t& word : fast) word = static_cast<std::uint32_t>(engine());
    sha256_detail::State portable = fast;
    sha256_detail::absorb_blocks(fast, bytes);
    sha256_detail::absorb_portably(portable, bytes);
    EXPECT_EQ(fast, portable) << blocks;
  }
}

}  // namespace
}  // namespace podaq
