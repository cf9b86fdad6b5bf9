#pragma once

#include <cstddef>
#include <cstdint>

#include "podaq/numerics/qparams.h"
#include "runtime/kernels/tasks.h"
#include "runtime/window.h"

namespace podaq::runtime_detail {

/// The input of a convolution, channels last, with its borders: `height` x `width` positions of codes, cut off where no
/// window reaches.
struct BorderedPlane {
  std::size_t height = 0, width = 0;

  [[nodiscard]] bool is_needed() const { return height != 0; }
  [[nodiscard]] std::size_t bytes(const ConvGeometry& geometry) const {
    return height * width * geometry.input_channels;
  }
};

/// The plane that the windows of `geometry` reach, whether or not any of it is border.
[[nodiscard]] BorderedPlane reached_plane(const ConvGeometry& geometry);

/// Whether all windows lie inside the input, so that it can be read in place.
[[nodiscard]] bool windows_lie_inside(const ConvGeometry& geometry);

/// Copies one sample of codes, channels last, with its borders, which hold `border`, the code of 0.
void copy_with_borders(const ConvGeometry& geometry, const BorderedPlane& plane, std::uint8_t border,
                       const std::uint8_t* input, std::uint8_t* output);

/// Likewise of row-major floats, which become codes under `qparams` by the function `quantize`.
void quantize_with_borders(const ConvGeometry& geometry, const BorderedPlane& plane, const QParams& qparams,
                           void (*quantize)(const QuantizeTask&), const float* input, std::uint8_t* output);

}  // namespace podaq::runtime_detail
