#pragma once

#include <cstddef>
#include <optional>

#include "runtime/kernel.h"

// What convolutions on codes may take over from their neighbours.
namespace podaq::runtime_detail {

/// The windows of a max pooling that lie side by side.
struct PoolWindow {
  std::size_t height = 1, width = 1;
};

/// The windows of `reader` where it is a max pooling that a convolution can compute from its sums: rounding is
/// monotonic, so the largest sum gives the largest code.
[[nodiscard]] std::optional<PoolWindow> pool_to_absorb(const ConvGeometry& geometry, const IntegerEpilogue& epilogue,
                                                       const NodeView& reader);

/// Makes `conv` write the codes of `producer`, a quantize, straight to where the borders are added, by the function
/// `quantize`; false where it is none.
[[nodiscard]] bool absorb_quantize(QuadConv& conv, const NodeView& producer, void (*quantize)(const QuantizeTask&));

/// The sample's input as windows can read it: in place, or copied to `plane` with its borders.
/// @param transposed  Room for a sample with channels last; only planar inputs need it.
[[nodiscard]] const std::uint8_t* readable_input(const QuadConv& conv, const std::byte* input, std::size_t sample,
                                                 std::uint8_t* plane, std::uint8_t* transposed = nullptr);

/// What is added to the sample's results, channels last; null where nothing is.
/// @param transposed  Room for it; only planar ones need it.
[[nodiscard]] const std::uint8_t* readable_residual(const QuadConv& conv, const Operands& operands, std::size_t sample,
                                                    std::uint8_t* transposed);

}  // namespace podaq::runtime_detail
