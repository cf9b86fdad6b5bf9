#include "podaq/data/iq_format.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "podaq/core/error.h"
#include "podaq/core/text.h"

namespace podaq {
namespace {

struct NamedNumber {
  std::string_view name;
  IqNumber number;
};

constexpr std::array numbers = {NamedNumber{"i8", IqNumber::int8},     NamedNumber{"u8", IqNumber::uint8},
                                NamedNumber{"i16", IqNumber::int16},   NamedNumber{"u16", IqNumber::uint16},
                                NamedNumber{"i32", IqNumber::int32},   NamedNumber{"u32", IqNumber::uint32},
                                NamedNumber{"f32", IqNumber::float32}, NamedNumber{"f64", IqNumber::float64}};

std::size_t part_bytes(IqNumber number) {
  switch (number) {
    case IqNumber::int8:
    case IqNumber::uint8:
      return 1;
    case IqNumber::int16:
    case IqNumber::uint16:
      return 2;
    case IqNumber::int32:
    case IqNumber::uint32:
    case IqNumber::float32:
      return 4;
    case IqNumber::float64:
      return 8;
  }
  return 0;
}

template <typename Number>
Number read_part(const std::byte* bytes, bool swap) {
  std::array<std::byte, sizeof(Number)> own;
  std::memcpy(own.data(), bytes, own.size());
  if (swap) std::ranges::reverse(own);
  return std::bit_cast<Number>(own);
}

template <typename Number>
float to_full_scale(Number value) {
  if constexpr (std::is_floating_point_v<Number>) {
    return static_cast<float>(value);
  } else {
    constexpr double half_range = static_cast<double>(std::uint64_t{1} << (8 * sizeof(Number) - 1));
    constexpr double middle = std::is_unsigned_v<Number> ? half_range : 0;
    return static_cast<float>((static_cast<double>(value) - middle) / half_range);
  }
}

template <typename Number>
void decode_as(bool swap, const std::byte* bytes, std::size_t stride, std::span<std::complex<float>> out) {
  for (auto& sample : out) {
    sample = {to_full_scale(read_part<Number>(bytes, swap)),
              to_full_scale(read_part<Number>(bytes + sizeof(Number), swap))};
    bytes += stride;
  }
}

}  // namespace

IqFormat parse_iq_format(std::string_view datatype, const std::string& name) {
  constexpr std::string_view known =
      "known are cf32, cf64, ci16, cu16, ci32, cu32, each with _le or _be, and ci8 and cu8";
  std::string_view rest = datatype;
  const bool complex = rest.starts_with('c');
  const bool real = rest.starts_with('r');
  if (complex || real) rest.remove_prefix(1);
  const auto number = std::ranges::find_if(numbers, [&](const NamedNumber& entry) {
    return rest == entry.name || (rest.starts_with(entry.name) &&
                                  (rest.substr(entry.name.size()) == "_le" || rest.substr(entry.name.size()) == "_be"));
  });
  const bool has_order = number != numbers.end() && rest.size() > number->name.size();
  const bool one_byte = number != numbers.end() && part_bytes(number->number) == 1;
  if ((!complex && !real) || number == numbers.end() || has_order == one_byte)
    throw Error(ErrorCode::format, concat(name, ": datatype '", datatype, "' is none of SigMF's; ", known));
  if (real)
    throw Error(ErrorCode::unsupported,
                concat(name, ": datatype '", datatype, "' holds real samples; complex ones are needed: ", known));
  return {.number = number->number, .big_endian = rest.ends_with("_be")};
}

std::size_t sample_bytes(const IqFormat& format) noexcept {
  return 2 * part_bytes(format.number);
}

void decode_iq(const IqFormat& format, std::span<const std::byte> bytes, std::size_t stride,
               std::span<std::complex<float>> out) {
  const bool swap = format.big_endian != (std::endian::native == std::endian::big);
  const auto decode = [&]<typename Number>(Number) { decode_as<Number>(swap, bytes.data(), stride, out); };
  switch (format.number) {
    case IqNumber::int8:
      return decode(std::int8_t{});
    case IqNumber::uint8:
      return decode(std::uint8_t{});
    case IqNumber::int16:
      return decode(std::int16_t{});
    case IqNumber::uint16:
      return decode(std::uint16_t{});
    case IqNumber::int32:
      return decode(std::int32_t{});
    case IqNumber::uint32:
      return decode(std::uint32_t{});
    case IqNumber::float32:
      return decode(float{});
    case IqNumber::float64:
      return decode(double{});
  }
}

}  // namespace podaq
