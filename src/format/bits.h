#pragma once

#include <cstddef>
#include <span>

#include "format/bytes.h"

// Bits in bytes, lowest first.
namespace podaq::format {

[[nodiscard]] inline bool get_bit(std::span<const std::byte> bytes, std::size_t index) {
  return (std::to_integer<unsigned>(bytes[index / 8]) >> (index % 8) & 1U) != 0;
}

inline void set_bit(std::span<std::byte> bytes, std::size_t index, bool bit) {
  const auto mask = static_cast<std::byte>(1U << (index % 8));
  bytes[index / 8] = bit ? bytes[index / 8] | mask : bytes[index / 8] & ~mask;
}

}  // namespace podaq::format
