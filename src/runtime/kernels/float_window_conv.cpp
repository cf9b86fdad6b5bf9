#include <algorithm>
#include <cstring>

#include "runtime/kernels/avx512/tasks.h"
#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/float_packing.h"
#include "runtime/kernels/registry.h"
#include "runtime/kernels/weights.h"

// Convolutions whose rows are too short to fill vectors: the windows of some positions are copied side by side and
// multiplied like the rows of a linear, whose vectors run across output channels. Every sum keeps its order.
namespace podaq::runtime_detail::avx512 {

namespace {

constexpr std::size_t most_windows = 32;

bool accepts(const NodeView& view) {
  if (view.has_codes()) return false;
  const ConvGeometry g = geometry_of(view.graph, view.node);
  const std::size_t row_vectors = (g.output_width + float_lanes - 1) / float_lanes;
  const bool rows_are_short = 3 * g.output_width < 2 * row_vectors * float_lanes;
  if (!rows_are_short || g.outputs_per_group() < float_lanes) return false;
  // The padding is copied as zeros instead of skipped.
  return are_finite(float_weights(view));
}

Packed prepare(const NodeView& view) {
  const auto& conv = std::get<Conv>(view.node.op);
  const ConvGeometry g = geometry_of(view.graph, view.node);
  const std::vector<float> weights = float_weights(view);
  const std::vector<float> bias = float_bias(view, g.output_channels);
  const std::size_t outputs = g.outputs_per_group();
  FloatConv packed{.geometry = g,
                   .weights = {},
                   .tap_offsets = {},
                   .bias = {},
                   .adds_input = conv.adds_input,
                   .bounds = float_bounds(conv.clamp)};
  for (std::size_t group = 0; group < g.groups; ++group) {
    append_float_matrix(std::span(weights).subspan(group * outputs * g.channels_per_group() * g.taps(),
                                                   outputs * g.channels_per_group() * g.taps()),
                        outputs, packed.weights);
    packed.bias.insert(packed.bias.end(), bias.begin() + static_cast<std::ptrdiff_t>(group * outputs),
                       bias.begin() + static_cast<std::ptrdiff_t>((group + 1) * outputs));
    packed.bias.resize((group + 1) * padded_float_outputs(outputs), 0.0F);
  }
  return packed;
}

// Scratch memory: windows, results, what is added to them.
struct Scratch {
  std::size_t results = 0, added = 0, floats = 0;  ///< Offsets, but the last.
};

Scratch scratch_of(const ConvGeometry& g) {
  Scratch scratch{.results = most_windows * g.channels_per_group() * g.taps()};
  scratch.added = scratch.results + most_windows * g.outputs_per_group();
  scratch.floats = scratch.added + most_windows * g.outputs_per_group();
  return scratch;
}

std::size_t scratch_bytes(const Packed& packed) {
  return scratch_of(std::get<FloatConv>(packed).geometry).floats * sizeof(float);
}

// Copies the window of one position of a group's channels, zeros where it lies in the padding.
void copy_window(const ConvGeometry& g, const float* input, std::size_t position, float* window) {
  const std::size_t top = position / g.output_width * g.stride_height;
  const std::size_t left = position % g.output_width * g.stride_width;
  for (std::size_t channel = 0; channel < g.channels_per_group(); ++channel, input += g.input_positions())
    for (std::size_t y = 0; y < g.kernel_height; ++y) {
      const std::size_t row = top + y * g.dilation_height;
      const bool is_inside = row >= g.pad_top && row - g.pad_top < g.input_height;
      const float* source = is_inside ? input + (row - g.pad_top) * g.input_width : nullptr;
      for (std::size_t x = 0; x < g.kernel_width; ++x, ++window) {
        const std::size_t column = left + x * g.dilation_width;
        const bool has_number = is_inside && column >= g.pad_left && column - g.pad_left < g.input_width;
        *window = has_number ? source[column - g.pad_left] : 0.0F;
      }
    }
}

// Positions [first, first + count), counted over the samples of the batch, of one group.
struct Windows {
  std::size_t group = 0, first = 0, count = 0;
};

void compute(const FloatConv& conv, const Operands& operands, const Windows& windows) {
  const ConvGeometry& g = conv.geometry;
  const std::size_t positions = g.output_positions();
  const std::size_t outputs = g.outputs_per_group();
  const std::size_t inputs = g.channels_per_group() * g.taps();
  const Scratch place = scratch_of(g);
  auto* scratch = as<float>(operands.scratch);
  float* results = scratch + place.results;
  const auto output_of = [&](std::size_t i) {
    const std::size_t sample = (windows.first + i) / positions;
    return (sample * g.output_channels + windows.group * outputs) * positions + (windows.first + i) % positions;
  };
  for (std::size_t i = 0; i < windows.count; ++i) {
    const std::size_t sample = (windows.first + i) / positions;
    const std::size_t channel = sample * g.input_channels + windows.group * g.channels_per_group();
    copy_window(g, as<float>(operands.inputs[0]) + channel * g.input_positions(), (windows.first + i) % positions,
                scratch + i * inputs);
    if (!conv.adds_input) continue;
    const float* added = as<float>(operands.inputs[1]) + output_of(i);
    for (std::size_t output = 0; output < outputs; ++output)
      scratch[place.added + i * outputs + output] = added[output * positions];
  }
  multiply_floats({.input = scratch,
                   .rows = windows.count,
                   .inputs = inputs,
                   .outputs = outputs,
                   .weights = conv.weights.data() + windows.group * (conv.weights.size() / g.groups),
                   .bias = conv.bias.data() + windows.group * padded_float_outputs(outputs),
                   .output = results,
                   .residual = conv.adds_input ? scratch + place.added : nullptr,
                   .minimum = conv.bounds.minimum,
                   .maximum = conv.bounds.maximum});
  for (std::size_t i = 0; i < windows.count; ++i) {
    float* output = as<float>(operands.output) + output_of(i);
    for (std::size_t channel = 0; channel < outputs; ++channel)
      output[channel * positions] = results[i * outputs + channel];
  }
}

void run(const Packed& packed, const Operands& operands) {
  const auto& conv = std::get<FloatConv>(packed);
  const std::size_t all = operands.batch * conv.geometry.output_positions();
  for (std::size_t group = 0; group < conv.geometry.groups; ++group)
    for (std::size_t first = 0; first < all; first += most_windows)
      compute(conv, operands, {.group = group, .first = first, .count = std::min(most_windows, all - first)});
}

}  // namespace

const Kernel float_window_conv = {.name = "avx512_float_window_conv",
                                  .isa = Isa::avx512,
                                  .accepts = accepts,
                                  .prepare = prepare,
                                  .run = run,
                                  .scratch_bytes = scratch_bytes};

}  // namespace podaq::runtime_detail::avx512
