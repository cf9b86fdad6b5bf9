#include "runtime/kernels/borders.h"

#include <algorithm>
#include <cstring>

namespace podaq::runtime_detail {

namespace {

// Fills the borders with `border` and calls fill_row(input row, output bytes, positions) for the rest of each row.
template <typename FillRow>
void fill_plane(const ConvGeometry& g, const BorderedPlane& plane, std::uint8_t border, std::uint8_t* output,
                FillRow fill_row) {
  const std::size_t row_bytes = plane.width * g.input_channels;
  const std::size_t left = std::min(g.pad_left, plane.width);
  const std::size_t filled = std::min(g.input_width, plane.width - left);
  const std::size_t right = plane.width - left - filled;
  for (std::size_t row = 0; row < plane.height; ++row, output += row_bytes) {
    if (row < g.pad_top || row - g.pad_top >= g.input_height) {
      std::memset(output, border, row_bytes);
      continue;
    }
    std::memset(output, border, left * g.input_channels);
    fill_row(row - g.pad_top, output + left * g.input_channels, filled);
    std::memset(output + (left + filled) * g.input_channels, border, right * g.input_channels);
  }
}

}  // namespace

BorderedPlane reached_plane(const ConvGeometry& g) {
  return {.height = g.reached_height(), .width = g.reached_width()};
}

bool windows_lie_inside(const ConvGeometry& g) {
  return g.pad_top == 0 && g.pad_left == 0 && g.reached_height() <= g.input_height &&
         g.reached_width() <= g.input_width;
}

void copy_with_borders(const ConvGeometry& g, const BorderedPlane& plane, std::uint8_t border,
                       const std::uint8_t* input, std::uint8_t* output) {
  const std::size_t input_row_bytes = g.input_width * g.input_channels;
  fill_plane(g, plane, border, output, [&](std::size_t row, std::uint8_t* positions, std::size_t count) {
    std::memcpy(positions, input + row * input_row_bytes, count * g.input_channels);
  });
}

void quantize_with_borders(const ConvGeometry& g, const BorderedPlane& plane, const QParams& q,
                           void (*quantize)(const QuantizeTask&), const float* input, std::uint8_t* output) {
  QuantizeTask task{.channels = g.input_channels,
                    .channel_stride = g.input_positions(),
                    .interleaves = true,
                    .inverse_scale = 1.0F / q.scale,
                    .zero_point = q.zero_point,
                    .lowest = q.lowest,
                    .highest = q.highest};
  fill_plane(g, plane, static_cast<std::uint8_t>(q.zero_point), output,
             [&](std::size_t row, std::uint8_t* positions, std::size_t count) {
               task.input = input + row * g.input_width;
               task.output = positions;
               task.positions = count;
               quantize(task);
             });
}

}  // namespace podaq::runtime_detail
