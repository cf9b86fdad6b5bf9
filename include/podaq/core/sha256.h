#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace podaq {

/// A SHA-256 digest (FIPS 180-4).
using Sha256Digest = std::array<std::byte, 32>;

/// SHA-256 of bytes that arrive in pieces.
class Sha256 {
 public:
  Sha256();

  /// Adds `bytes` to the message.
  void update(std::span<const std::byte> bytes);

  /// The digest of everything added so far; more may be added afterwards.
  [[nodiscard]] Sha256Digest digest() const;

 private:
  void pad_and_absorb();

  std::array<std::uint32_t, 8> state_;
  std::array<std::byte, 64> pending_{};
  std::uint64_t message_bytes_ = 0;
};

/// SHA-256 of `bytes`.
[[nodiscard]] Sha256Digest sha256(std::span<const std::byte> bytes);

/// The bytes as lower-case hexadecimal digits.
[[nodiscard]] std::string to_hexadecimal(std::span<const std::byte> bytes);

}  // namespace podaq
