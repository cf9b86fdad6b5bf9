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

[[noreturn]] inline void fail(std::string_view where, std::string_view problem) {
  throw Error(ErrorCode::format, concat("podaq file, ", where, ": ", problem));
}

inline void append(Bytes& out, std::span<const std::byte> bytes) {
  const std::size_t size = out.size();
  out.resize(size + bytes.size());
  if (!bytes.empty()) std::memcpy(out.data() + size, bytes.data(), bytes.size());
}

template <typename Number>
requires std::is_trivially_copyable_v<Number>
void append_number(Bytes& out, Number number) {
  append(out, std::as_bytes(std::span(&number, 1)));
}

// Seven bits a byte, lowest first; the top bit says that more follow.
inline void append_varint(Bytes& out, std::uint64_t number) {
  for (; number >= 0x80; number >>= 7) out.push_back(static_cast<std::byte>((number & 0x7F) | 0x80));
  out.push_back(static_cast<std::byte>(number));
}

// Reads a byte sequence from front to back and never past its end.
class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, std::string_view where) : bytes_(bytes), where_(where) {}

  [[nodiscard]] std::size_t offset() const { return offset_; }
  [[nodiscard]] std::size_t left() const { return bytes_.size() - offset_; }

  std::span<const std::byte> take(std::uint64_t count, std::string_view what) {
    if (count > left())
      fail(where_, concat(what, " at offset ", offset_, " needs ", count, " bytes, only ", left(), " are left"));
    const auto taken = bytes_.subspan(offset_, static_cast<std::size_t>(count));
    offset_ += taken.size();
    return taken;
  }

  template <typename Number>
  requires std::is_trivially_copyable_v<Number> Number number(std::string_view what) {
    Number number{};
    std::memcpy(&number, take(sizeof number, what).data(), sizeof number);
    return number;
  }

  std::uint64_t varint(std::string_view what) {
    std::uint64_t number = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = std::to_integer<std::uint64_t>(take(1, what).front());
      if (shift == 63 && byte > 1) break;
      number |= (byte & 0x7F) << shift;
      if (byte < 0x80) return number;
    }
    fail(where_, concat(what, " before offset ", offset_, " does not fit 64 bits"));
  }

 private:
  std::span<const std::byte> bytes_;
  std::string_view where_;
  std::size_t offset_ = 0;
};

}  // namespace podaq::format
