#include <gtest/gtest.h>

#include "podaq/core/error.h"
#include "podaq/format/file.h"
#include "podaq/graph/passes.h"
#include "support/random_graph.h"

namespace podaq {
namespace {

// Expects an error that says the file is at fault.
void expect_refused(std::span<const std::byte> bytes) {
  try {
    (void)decode(bytes);
    ADD_FAILURE() << "a damaged file was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::format) << error.what();
  }
}

std::vector<std::byte> small_file() {
  return encode(remove_unused(test::random_integer_graph(2)));
}

TEST(Damage, EveryTruncationIsRefused) {
  const auto bytes = small_file();
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    SCOPED_TRACE(length);
    // A copy of its own, so that a sanitizer sees reads past the end.
    expect_refused(std::vector<std::byte>(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length)));
  }
}

TEST(Damage, EveryFlippedBitIsRefused) {
  auto bytes = small_file();
  for (std::size_t i = 0; i < bytes.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      SCOPED_TRACE(8 * i + static_cast<std::size_t>(bit));
      const std::byte before = bytes[i];
      bytes[i] ^= static_cast<std::byte>(1 << bit);
      expect_refused(bytes);
      bytes[i] = before;
    }
}

TEST(Damage, AppendedBytesAreRefused) {
  auto bytes = small_file();
  bytes.push_back(std::byte{0});
  expect_refused(bytes);
}

}  // namespace
}  // namespace podaq
