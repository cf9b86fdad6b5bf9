#include "runtime/kernels/quad_packing.h"

#include <algorithm>

namespace podaq::runtime_detail {

namespace {

constexpr std::size_t lanes = 16;
constexpr std::size_t block_outputs = 64;

// Where the weight for one byte of a window comes from and goes to, the same for all output channels.
struct WeightPlace {
  std::size_t group = 0;   ///< Of the merged groups, the one that has such a weight; the others' is 0.
  std::size_t source = 0;  ///< Among the weights of an output channel.
  std::size_t quad_index = 0;
  std::size_t byte_in_quad = 0;
};

std::vector<WeightPlace> weight_places(const WindowRuns& runs, const GroupedWeights& weights,
                                       std::size_t quads_per_run) {
  std::vector<WeightPlace> places;
  places.reserve(runs.window.size());
  for (std::size_t i = 0; i < runs.window.size(); ++i) {
    const auto [channel, tap] = runs.window[i];
    const std::size_t in_run = i % runs.bytes;
    places.push_back({.group = channel / weights.inputs,
                      .source = channel % weights.inputs * weights.taps + tap,
                      .quad_index = i / runs.bytes * quads_per_run + in_run / quad,
                      .byte_in_quad = in_run % quad});
  }
  return places;
}

}  // namespace

std::size_t groups_to_merge(const ConvGeometry& g, std::size_t least_outputs) {
  constexpr std::size_t most_merged_outputs = 128;
  if (g.groups == 1) return 1;
  std::size_t merged = 1;
  while (merged < g.groups && (g.groups % merged != 0 || merged * g.outputs_per_group() < least_outputs)) ++merged;
  return merged == 1 || merged * g.outputs_per_group() <= most_merged_outputs ? merged : 0;
}

ConvGeometry with_merged_groups(ConvGeometry g) {
  g.groups /= std::max<std::size_t>(1, groups_to_merge(g, lanes));
  return g;
}

std::size_t run_taps(const ConvGeometry& g) {
  return g.groups == 1 && g.dilation_width == 1 ? g.kernel_width : 1;
}

WindowRuns find_runs(const ConvGeometry& g) {
  const std::size_t taps_per_run = run_taps(g);
  WindowRuns runs{.count = g.taps() / taps_per_run, .bytes = taps_per_run * g.channels_per_group(), .window = {}};
  for (std::size_t tap = 0; tap < g.taps(); ++tap)
    for (std::size_t channel = 0; channel < g.channels_per_group(); ++channel)
      runs.window.push_back({.channel = channel, .tap = tap});
  return runs;
}

std::vector<std::uint32_t> run_offsets(const ConvGeometry& g, const WindowRuns& runs, std::size_t row_width) {
  std::vector<std::uint32_t> offsets;
  const std::size_t taps_per_run = g.taps() / runs.count;
  for (std::size_t tap = 0; tap < g.taps(); tap += taps_per_run) {
    const std::size_t row = tap / g.kernel_width * g.dilation_height;
    const std::size_t column = tap % g.kernel_width * g.dilation_width;
    offsets.push_back(static_cast<std::uint32_t>((row * row_width + column) * g.input_channels));
  }
  return offsets;
}

void pack_quads(QuadConv& packed, const WindowRuns& runs, const GroupedWeights& weights,
                std::span<const std::int32_t> bias, std::size_t outputs_multiple) {
  const ConvGeometry& g = packed.geometry;
  const std::size_t quads = runs.count * packed.quads_per_run;
  const std::size_t outputs = g.outputs_per_group();
  const std::size_t merged = outputs / weights.outputs;
  packed.padded_outputs = round_up(outputs, outputs_multiple);
  packed.weights.assign(g.groups * packed.padded_outputs * quads * quad, 0);
  packed.bias.assign(g.groups * packed.padded_outputs, 0);
  packed.multipliers.assign(g.groups * packed.padded_outputs, 0.0F);
  const std::vector<WeightPlace> places = weight_places(runs, weights, packed.quads_per_run);
  for (std::size_t channel = 0; channel < g.output_channels; ++channel) {
    const std::size_t group = channel / outputs;
    const std::size_t output = channel % outputs;
    const std::size_t own_group = channel / weights.outputs % merged;
    const std::int8_t* own_weights = weights.codes.data() + channel * weights.inputs * weights.taps;
    const std::size_t first_of_block = output / block_outputs * block_outputs;
    const std::size_t vectors = std::min(block_outputs, packed.padded_outputs - first_of_block) / lanes;
    std::int8_t* block = packed.weights.data() + (group * packed.padded_outputs + first_of_block) * quads * quad;
    const std::size_t lane = output - first_of_block;
    for (const WeightPlace& place : places) {
      if (place.group != own_group) continue;
      block[(place.quad_index * vectors * lanes + lane) * quad + place.byte_in_quad] = own_weights[place.source];
    }
    packed.bias[group * packed.padded_outputs + output] = bias[channel];
    packed.multipliers[group * packed.padded_outputs + output] = packed.epilogue.multipliers[channel];
  }
  packed.epilogue.multipliers = {};
}

void reorder_inputs(QuadConv& linear, std::size_t channels, std::size_t positions) {
  const AlignedVector<std::int8_t> before = linear.weights;
  for (std::size_t first = 0; first < linear.padded_outputs; first += block_outputs) {
    const std::size_t outputs = std::min(block_outputs, linear.padded_outputs - first);
    const std::size_t block = first * linear.quads_per_run * quad;
    const auto index = [&](std::size_t input, std::size_t output) {
      return block + (input / quad * outputs + output) * quad + input % quad;
    };
    for (std::size_t channel = 0; channel < channels; ++channel)
      for (std::size_t position = 0; position < positions; ++position)
        for (std::size_t output = 0; output < outputs; ++output)
          linear.weights[index(position * channels + channel, output)] =
              before[index(channel * positions + position, output)];
  }
}

}  // namespace podaq::runtime_detail
