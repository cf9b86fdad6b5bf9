#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "podaq/core/error.h"
#include "podaq/core/text.h"

namespace podaq::format {

static_assert(std::endian::native == std::endian::little, "numbers are stored little endian, as this CPU holds them");

using Bytes = std::vector<std::byte>;

// Throws Error(format).
[[noreturn]] void fail(std::string_view where, std::string_view problem);

void append(Bytes& out, std::span<const std::byte> bytes);

template <typename Number>
requires std::is_trivially_copyable_v<Number>
void append_number(Bytes& out, Number number) {
  append(out, std::as_bytes(std::span(&number, 1)));
}

// Seven bits a byte, lowest first; the top bit says that more follow.
void append_varint(Bytes& out, std::uint64_t number);

// Reads a byte sequence from front to back and never past its end.
class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, std::string_view where) : bytes_(bytes), where_(where) {}

  [[nodiscard]] std::size_t offset() const { return offset_; }
  [[nodiscard]] std::size_t left() const { return bytes_.size() - offset_; }

  std::span<const std::byte> take(std::uint64_t count, std::string_view what);

  template <typename Number>
  requires std::is_trivially_copyable_v<Number> Number number(std::string_view what) {
    Number number{};
    std::memcpy(&number, take(sizeof number, what).data(), sizeof number);
    return number;
  }

  std::uint64_t varint(std::string_view what);

 private:
  std::span<const std::byte> bytes_;
  std::string_view where_;
  std::size_t offset_ = 0;
};

}  // namespace podaq::format
