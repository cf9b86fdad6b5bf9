#include "format/bytes.h"

#include "podaq/core/error.h"
#include "podaq/core/text.h"

namespace podaq::format {

void fail(std::string_view where, std::string_view problem) {
  throw Error(ErrorCode::format, concat("podaq file, ", where, ": ", problem));
}

void append(Bytes& out, std::span<const std::byte> bytes) {
  const std::size_t size = out.size();
  out.resize(size + bytes.size());
  if (!bytes.empty()) std::memcpy(out.data() + size, bytes.data(), bytes.size());
}

void append_varint(Bytes& out, std::uint64_t number) {
  for (; number >= 0x80; number >>= 7) out.push_back(static_cast<std::byte>((number & 0x7F) | 0x80));
  out.push_back(static_cast<std::byte>(number));
}

std::span<const std::byte> ByteReader::take(std::uint64_t count, std::string_view what) {
  if (count > left())
    fail(where_, concat(what, " at offset ", offset_, " needs ", count, " bytes, only ", left(), " are left"));
  const auto taken = bytes_.subspan(offset_, static_cast<std::size_t>(count));
  offset_ += taken.size();
  return taken;
}

std::uint64_t ByteReader::varint(std::string_view what) {
  std::uint64_t number = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = std::to_integer<std::uint64_t>(take(1, what).front());
    if (shift == 63 && byte > 1) break;
    number |= (byte & 0x7F) << shift;
    if (byte < 0x80) return number;
  }
  fail(where_, concat(what, " before offset ", offset_, " does not fit 64 bits"));
}

}  // namespace podaq::format
