#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace podaq {

namespace crc32c_detail {

// The Castagnoli polynomial (RFC 3720, appendix B.4), bits reversed.
inline constexpr std::uint32_t polynomial = 0x82F63B78;

consteval std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? polynomial : 0);
    table[byte] = remainder;
  }
  return table;
}

inline constexpr std::array<std::uint32_t, 256> table = make_table();

}  // namespace crc32c_detail

/// CRC-32C (Castagnoli) of `bytes`. Give the result for a first part as `previous` to go on with a second part.
[[nodiscard]] constexpr std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t previous = 0) {
  std::uint32_t remainder = ~previous;
  for (const std::byte byte : bytes)
    remainder = (remainder >> 8) ^ crc32c_detail::table[(remainder ^ std::to_integer<std::uint32_t>(byte)) & 0xFF];
  return ~remainder;
}

}  // namespace podaq
