#include <algorithm>
#include <cstring>

#include "runtime/kernels/avx2/tasks.h"
#include "runtime/kernels/avx512/tasks.h"
#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/registry.h"
#include "runtime/kernels/weights.h"

namespace podaq::runtime_detail {

namespace {

constexpr std::size_t most_lanes = 16;

// The copy of one sample: [channel][row][column modulo stride][column / stride].
struct PhasedInput {
  std::size_t rows = 0, phases = 0, columns = 0;
  [[nodiscard]] std::size_t row_size() const { return phases * columns; }
  [[nodiscard]] std::size_t channel_size() const { return rows * row_size(); }
};

PhasedInput phased_input(const ConvGeometry& g) {
  const std::size_t columns = (g.reached_width() + g.stride_width - 1) / g.stride_width;
  return {.rows = g.reached_height(), .phases = g.stride_width, .columns = columns};
}

// The padding is copied as zeros instead of skipped.
bool accepts(const NodeView& view) {
  if (view.has_codes()) return false;
  return are_finite(float_weights(view));
}

// Outputs that one pass over the input computes: 4, then 2, then 1 at the end of a group.
std::size_t block_size(std::size_t outputs_left) {
  return outputs_left >= 4 ? 4 : outputs_left >= 2 ? 2 : 1;
}

Packed prepare(const NodeView& view) {
  const auto& conv = std::get<Conv>(view.node.op);
  const ConvGeometry g = geometry_of(view.graph, view.node);
  const std::vector<float> weights = float_weights(view);
  const std::size_t window = g.channels_per_group() * g.taps();
  FloatConv packed{.geometry = g,
                   .weights = {},
                   .tap_offsets = {},
                   .bias = float_bias(view, g.output_channels),
                   .adds_input = conv.adds_input,
                   .bounds = float_bounds(conv.clamp)};
  packed.weights.reserve(weights.size());
  for (std::size_t group = 0; group < g.groups; ++group)
    for (std::size_t output = 0; output < g.outputs_per_group();) {
      const std::size_t block = block_size(g.outputs_per_group() - output);
      const float* first = weights.data() + (group * g.outputs_per_group() + output) * window;
      for (std::size_t i = 0; i < window; ++i)
        for (std::size_t o = 0; o < block; ++o) packed.weights.push_back(first[o * window + i]);
      output += block;
    }
  const PhasedInput input = phased_input(g);
  for (std::size_t tap = 0; tap < g.taps(); ++tap) {
    const std::size_t row = tap / g.kernel_width * g.dilation_height;
    const std::size_t column = tap % g.kernel_width * g.dilation_width;
    packed.tap_offsets.push_back(static_cast<std::uint32_t>(
        row * input.row_size() + column % g.stride_width * input.columns + column / g.stride_width));
  }
  return packed;
}

// Vectors that start at a row's last columns read on into the next row, behind the last one into this margin.
std::size_t scratch_bytes(const Packed& packed) {
  const ConvGeometry& g = std::get<FloatConv>(packed).geometry;
  return (g.input_channels * phased_input(g).channel_size() + most_lanes) * sizeof(float);
}

// Copies one row of the input, or zeros where `source` is null.
void copy_row(const ConvGeometry& g, const PhasedInput& phased, const float* source, float* row) {
  std::fill_n(row, phased.row_size(), 0.0F);
  if (source == nullptr || g.pad_left >= g.reached_width()) return;
  const std::size_t copied = std::min(g.input_width, g.reached_width() - g.pad_left);
  if (g.stride_width == 1) {
    std::memcpy(row + g.pad_left, source, copied * sizeof(float));
    return;
  }
  for (std::size_t i = 0; i < copied; ++i) {
    const std::size_t column = g.pad_left + i;
    row[column % g.stride_width * phased.columns + column / g.stride_width] = source[i];
  }
}

void copy_sample(const ConvGeometry& g, const PhasedInput& phased, const float* input, float* copy) {
  for (std::size_t channel = 0; channel < g.input_channels; ++channel)
    for (std::size_t row = 0; row < phased.rows; ++row, copy += phased.row_size()) {
      const bool inside = row >= g.pad_top && row - g.pad_top < g.input_height;
      const std::size_t first = inside ? (channel * g.input_height + row - g.pad_top) * g.input_width : 0;
      copy_row(g, phased, inside ? input + first : nullptr, copy);
    }
}

template <void (*convolve)(const FloatConvTask&)>
void run(const Packed& packed, const Operands& operands) {
  const auto& conv = std::get<FloatConv>(packed);
  const ConvGeometry& g = conv.geometry;
  const PhasedInput phased = phased_input(g);
  auto* copy = as<float>(operands.scratch);
  std::fill_n(copy + g.input_channels * phased.channel_size(), most_lanes, 0.0F);
  const std::size_t group_outputs = g.outputs_per_group() * g.output_positions();
  FloatConvTask task{.channels = g.channels_per_group(),
                     .channel_stride = phased.channel_size(),
                     .rows = g.output_height,
                     .columns = g.output_width,
                     .row_stride = g.stride_height * phased.row_size(),
                     .tap_offsets = conv.tap_offsets.data(),
                     .taps = g.taps(),
                     .outputs = g.outputs_per_group(),
                     .output = as<float>(operands.output),
                     .residual = conv.adds_input ? as<float>(operands.inputs[1]) : nullptr,
                     .minimum = conv.bounds.minimum,
                     .maximum = conv.bounds.maximum};
  for (std::size_t sample = 0; sample < operands.batch; ++sample) {
    copy_sample(g, phased, as<float>(operands.inputs[0]) + sample * g.input_channels * g.input_positions(), copy);
    for (std::size_t group = 0; group < g.groups; ++group) {
      task.input = copy + group * g.channels_per_group() * phased.channel_size();
      task.weights = conv.weights.data() + group * (conv.weights.size() / g.groups);
      task.bias = conv.bias.data() + group * g.outputs_per_group();
      convolve(task);
      task.output += group_outputs;
      if (task.residual != nullptr) task.residual += group_outputs;
    }
  }
}

}  // namespace

const Kernel avx2::float_conv = {.name = "avx2_float_conv",
                                 .isa = Isa::avx2,
                                 .accepts = accepts,
                                 .prepare = prepare,
                                 .run = run<avx2::convolve_floats>,
                                 .scratch_bytes = scratch_bytes};
const Kernel avx512::float_conv = {.name = "avx512_float_conv",
                                   .isa = Isa::avx512,
                                   .accepts = accepts,
                                   .prepare = prepare,
                                   .run = run<avx512::convolve_floats>,
                                   .scratch_bytes = scratch_bytes};

}  // namespace podaq::runtime_detail
