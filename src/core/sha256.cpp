#include "podaq/core/sha256.h"

#include <algorithm>
#include <cstring>

#include "core/sha256_blocks.h"

namespace podaq {
namespace {

// FIPS 180-4 §5.3.3: the same of the square roots of the first 8 primes.
constexpr std::array<std::uint32_t, 8> initial_state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

void store_big_endian(std::uint64_t number, std::span<std::byte> out) {
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<std::byte>((number >> (8 * (out.size() - 1 - i))) & 0xFF);
}

}  // namespace

Sha256::Sha256() : state_(initial_state) {}

void Sha256::update(std::span<const std::byte> bytes) {
  std::size_t filled = message_bytes_ % 64;
  message_bytes_ += bytes.size();
  while (!bytes.empty()) {
    if (filled == 0 && bytes.size() >= 64) {
      const std::size_t whole = bytes.size() / 64 * 64;
      sha256_detail::absorb_blocks(state_, bytes.first(whole));
      bytes = bytes.subspan(whole);
      continue;
    }
    const std::size_t taken = std::min(bytes.size(), 64 - filled);
    std::memcpy(pending_.data() + filled, bytes.data(), taken);
    bytes = bytes.subspan(taken);
    filled += taken;
    if (filled == 64) {
      sha256_detail::absorb_blocks(state_, pending_);
      filled = 0;
    }
  }
}

void Sha256::pad_and_absorb() {
  std::size_t filled = message_bytes_ % 64;
  pending_[filled++] = std::byte{0x80};
  if (filled > 56) {
    std::fill(pending_.begin() + static_cast<std::ptrdiff_t>(filled), pending_.end(), std::byte{0});
    sha256_detail::absorb_blocks(state_, pending_);
    filled = 0;
  }
  std::fill(pending_.begin() + static_cast<std::ptrdiff_t>(filled), pending_.end(), std::byte{0});
  store_big_endian(message_bytes_ * 8, std::span(pending_).last(8));
  sha256_detail::absorb_blocks(state_, pending_);
}

Sha256Digest Sha256::digest() const {
  Sha256 copy = *this;
  copy.pad_and_absorb();
  Sha256Digest digest{};
  for (std::size_t i = 0; i < 8; ++i) store_big_endian(copy.state_[i], std::span(digest).subspan(4 * i, 4));
  return digest;
}

Sha256Digest sha256(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.digest();
}

std::string to_hexadecimal(std::span<const std::byte> bytes) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::byte byte : bytes) {
    text += digits[std::to_integer<unsigned>(byte) >> 4];
    text += digits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

}  // namespace podaq
