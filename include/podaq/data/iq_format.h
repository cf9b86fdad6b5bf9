#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace podaq {

/// How one part, in-phase or quadrature, of a complex sample is stored.
enum class IqNumber : std::uint8_t { int8, uint8, int16, uint16, int32, uint32, float32, float64 };

/// How complex samples are stored: in-phase, then quadrature, then the next sample.
struct IqFormat {
  IqNumber number = IqNumber::float32;  ///< The type of both parts.
  bool big_endian = false;              ///< Byte order; of no consequence for parts of 8 bits.
};

/// The format that SigMF's `core:datatype` names (SigMF 1.x, "Dataset Format"): `cf32_le`, `ci16_be`, `cu8`, and so on.
/// `name` stands for its origin in error texts. Throws `Error`: unsupported for real samples (`rf32_le`), which have no
/// quadrature part; format for any other word, listing those known.
[[nodiscard]] IqFormat parse_iq_format(std::string_view datatype, const std::string& name);

/// Bytes of one complex sample.
[[nodiscard]] std::size_t sample_bytes(const IqFormat& format) noexcept;

/// Decodes out.size() samples, of which number i begins at byte i × stride (so a stride of several samples picks one of
/// interleaved channels). Signed integers are divided by 2^(bits − 1), unsigned ones first lowered by that, so that
/// full scale is 1; floats come as they are, NaN and infinity included. `bytes` must hold them all.
void decode_iq(const IqFormat& format, std::span<const std::byte> bytes, std::size_t stride,
               std::span<std::complex<float>> out);

}  // namespace podaq
