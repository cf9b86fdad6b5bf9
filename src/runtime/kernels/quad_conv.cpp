#include <algorithm>
#include <cstring>

#include "runtime/kernels/avx512/plane_tasks.h"
#include "runtime/kernels/avx512/tasks.h"
#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/registry.h"
#include "runtime/kernels/weights.h"

namespace podaq::runtime_detail::avx512 {

namespace {

constexpr std::size_t lanes = 16;
constexpr std::size_t block_outputs = 64;
constexpr std::size_t quad = 4;

std::size_t round_up(std::size_t count, std::size_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

// Groups of few outputs would leave most lanes idle, so several are computed as one, with weights of 0 between them:
// the smallest number of groups that divides them all and fills a vector. 0 where that would waste more than it fills.
std::size_t groups_to_merge(const ConvGeometry& g) {
  constexpr std::size_t most_merged_outputs = 128;
  if (g.groups == 1) return 1;
  std::size_t merged = 1;
  while (merged < g.groups && (g.groups % merged != 0 || merged * g.outputs_per_group() < lanes)) ++merged;
  return merged == 1 || merged * g.outputs_per_group() <= most_merged_outputs ? merged : 0;
}

// The contiguous runs of input bytes that a window consists of, and what each byte is.
struct Runs {
  struct Byte {
    std::size_t channel, tap;
  };
  std::size_t count = 0, bytes = 0;
  std::vector<Byte> window;  ///< Of all runs, one after another.
};

// With channels last, a row of neighbouring taps of an ungrouped convolution is one run; otherwise each tap is.
Runs find_runs(const ConvGeometry& g) {
  const bool rows_are_runs = g.groups == 1 && g.dilation_width == 1;
  const std::size_t taps_per_run = rows_are_runs ? g.kernel_width : 1;
  Runs runs{.count = g.taps() / taps_per_run, .bytes = taps_per_run * g.channels_per_group(), .window = {}};
  for (std::size_t tap = 0; tap < g.taps(); ++tap)
    for (std::size_t channel = 0; channel < g.channels_per_group(); ++channel)
      runs.window.push_back({.channel = channel, .tap = tap});
  return runs;
}

std::vector<std::uint32_t> run_offsets(const ConvGeometry& g, const Runs& runs, std::size_t row_width) {
  std::vector<std::uint32_t> offsets;
  const std::size_t taps_per_run = g.taps() / runs.count;
  for (std::size_t tap = 0; tap < g.taps(); tap += taps_per_run) {
    const std::size_t row = tap / g.kernel_width * g.dilation_height;
    const std::size_t column = tap % g.kernel_width * g.dilation_width;
    offsets.push_back(static_cast<std::uint32_t>((row * row_width + column) * g.input_channels));
  }
  return offsets;
}

// A weight tensor {outputs, inputs of a group, taps} whose groups may have been merged.
struct Weights {
  std::vector<std::int8_t> codes;
  std::size_t inputs = 1, outputs = 1, taps = 1;  ///< Of one original group.

  // The weight of an output channel for a channel of its merged group: 0 where that belongs to another original group.
  [[nodiscard]] std::int8_t at(std::size_t output, std::size_t group_channel, std::size_t tap,
                               std::size_t merged) const {
    if (group_channel / inputs != output / outputs % merged) return 0;
    return codes[(output * inputs + group_channel % inputs) * taps + tap];
  }
};

// Fills the packed weights, bias and multipliers.
void pack(QuadConv& packed, const Runs& runs, const Weights& weights, std::span<const std::int32_t> bias) {
  const ConvGeometry& g = packed.geometry;
  const std::size_t quads = runs.count * packed.quads_per_run;
  const std::size_t outputs = g.outputs_per_group();
  const std::size_t merged = outputs / weights.outputs;
  packed.padded_outputs = round_up(outputs, lanes);
  packed.weights.assign(g.groups * packed.padded_outputs * quads * quad, 0);
  packed.bias.assign(g.groups * packed.padded_outputs, 0);
  packed.multipliers.assign(g.groups * packed.padded_outputs, 0.0F);
  for (std::size_t channel = 0; channel < g.output_channels; ++channel) {
    const std::size_t group = channel / outputs;
    const std::size_t output = channel % outputs;
    const std::size_t first_of_block = output / block_outputs * block_outputs;
    const std::size_t vectors = std::min(block_outputs, packed.padded_outputs - first_of_block) / lanes;
    std::int8_t* block = packed.weights.data() + (group * packed.padded_outputs + first_of_block) * quads * quad;
    const std::size_t lane = output - first_of_block;
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < runs.window.size(); ++i) {
      const std::size_t in_run = i % runs.bytes;
      const std::size_t quad_index = i / runs.bytes * packed.quads_per_run + in_run / quad;
      const std::int8_t weight = weights.at(channel, runs.window[i].channel, runs.window[i].tap, merged);
      block[(quad_index * vectors * lanes + lane) * quad + in_run % quad] = weight;
      sum += weight;
    }
    // The fold may leave 32 bits; the accumulator wraps with it and comes back, since the true sum fits.
    const std::int64_t folded = bias[channel] - sum * packed.input_zero_point;
    packed.bias[group * packed.padded_outputs + output] = static_cast<std::int32_t>(static_cast<std::uint32_t>(folded));
    packed.multipliers[group * packed.padded_outputs + output] = packed.epilogue.multipliers[channel];
  }
  packed.epilogue.multipliers = {};
}

bool accepts_conv(const NodeView& view) {
  const bool can_store = !view.gives_codes() || !is_planar(view.output(), view.output_layout());
  return view.has_codes() && can_store && groups_to_merge(geometry_of(view.graph, view.node)) != 0;
}

Packed prepare_conv(const NodeView& view) {
  const auto& conv = std::get<Conv>(view.node.op);
  ConvGeometry g = geometry_of(view.graph, view.node);
  const Weights weights{.codes = integer_weights(view),
                        .inputs = g.channels_per_group(),
                        .outputs = g.outputs_per_group(),
                        .taps = g.taps()};
  g.groups /= groups_to_merge(g);
  QuadConv packed{.geometry = g,
                  .input_is_planar = is_planar(view.input(), view.input_layout()),
                  .residual_is_planar = conv.adds_input && is_planar(view.input(1), view.input_layout(1)),
                  .input_zero_point = static_cast<std::uint8_t>(view.input().qparams->zero_point),
                  .run_offsets = {},
                  .weights = {},
                  .bias = {},
                  .multipliers = {},
                  .output = strides_of(view.output().shape, view.output_layout()),
                  .epilogue = integer_epilogue(view, conv.adds_input, conv.clamp)};
  const bool inside =
      g.pad_top == 0 && g.pad_left == 0 && g.reached_height() <= g.input_height && g.reached_width() <= g.input_width;
  if (!inside) {
    packed.padded_height = g.reached_height();
    packed.padded_width = g.reached_width();
  }
  const Runs runs = find_runs(g);
  packed.run_offsets = run_offsets(g, runs, inside ? g.input_width : packed.padded_width);
  packed.quads_per_run = round_up(runs.bytes, quad) / quad;
  pack(packed, runs, weights, integer_bias(view, g.output_channels));
  return packed;
}

// What the scratch memory holds: the input with its borders, then what had to be transposed.
struct Scratch {
  std::size_t input = 0, residual = 0, bytes = 0;  ///< Offsets, but the last.
};

Scratch scratch_of(const QuadConv& conv) {
  const ConvGeometry& g = conv.geometry;
  const auto area = [](std::size_t bytes) { return round_up(bytes + over_read_bytes, over_read_bytes); };
  Scratch scratch{.input = area(conv.padded_height * conv.padded_width * g.input_channels)};
  scratch.residual = scratch.input + (conv.input_is_planar ? area(g.input_channels * g.input_positions()) : 0);
  scratch.bytes = scratch.residual + (conv.residual_is_planar ? g.output_channels * g.output_positions() : 0);
  return scratch;
}

std::size_t scratch_bytes(const Packed& packed) {
  return scratch_of(std::get<QuadConv>(packed)).bytes;
}

// Copies one sample with its borders; the border holds the code of 0.
void copy_with_borders(const QuadConv& conv, const std::uint8_t* input, std::uint8_t* padded) {
  const ConvGeometry& g = conv.geometry;
  const std::size_t row_bytes = conv.padded_width * g.input_channels;
  const std::size_t left = std::min(g.pad_left, conv.padded_width);
  const std::size_t copied = std::min(g.input_width, conv.padded_width - left);
  for (std::size_t row = 0; row < conv.padded_height; ++row, padded += row_bytes) {
    if (row < g.pad_top || row - g.pad_top >= g.input_height) {
      std::memset(padded, conv.input_zero_point, row_bytes);
      continue;
    }
    const std::uint8_t* source = input + (row - g.pad_top) * g.input_width * g.input_channels;
    std::memset(padded, conv.input_zero_point, left * g.input_channels);
    std::memcpy(padded + left * g.input_channels, source, copied * g.input_channels);
    std::memset(padded + (left + copied) * g.input_channels, conv.input_zero_point,
                (conv.padded_width - left - copied) * g.input_channels);
  }
}

// What all groups and samples of a node share.
QuadTask common_task(const QuadConv& conv, const Operands& operands) {
  const IntegerEpilogue& e = conv.epilogue;
  return {.run_offsets = conv.run_offsets.data(),
          .runs = conv.run_offsets.size(),
          .quads_per_run = conv.quads_per_run,
          .weights = conv.weights.data(),
          .bias = conv.bias.data(),
          .multipliers = conv.multipliers.data(),
          .outputs = conv.geometry.outputs_per_group(),
          .output = operands.output,
          .output_channel_stride = conv.output.channel,
          .output_position_stride = conv.output.position,
          .residual = e.adds_codes ? as<std::uint8_t>(operands.inputs[1]) : nullptr,
          .residual_position_stride = conv.geometry.output_channels,
          .epilogue = {.gives_codes = e.gives_codes,
                       .residual_multiplier = e.residual_multiplier,
                       .residual_zero_point = e.residual_zero_point,
                       .zero_point = e.zero_point,
                       .lowest = e.lowest,
                       .highest = e.highest,
                       .minimum = e.bounds.minimum,
                       .maximum = e.bounds.maximum}};
}

// Computes all groups of one sample. `task` has the sample's input, output and residual.
void run_groups(const QuadConv& conv, QuadTask task) {
  const ConvGeometry& g = conv.geometry;
  const std::size_t output_bytes = conv.epilogue.gives_codes ? sizeof(std::uint8_t) : sizeof(float);
  const std::size_t weight_bytes = conv.weights.size() / g.groups;
  for (std::size_t group = 0; group < g.groups; ++group) {
    convolve_quads(task);
    task.input += g.channels_per_group();
    task.weights += weight_bytes;
    task.bias += conv.padded_outputs;
    task.multipliers += conv.padded_outputs;
    task.output =
        static_cast<std::byte*>(task.output) + g.outputs_per_group() * task.output_channel_stride * output_bytes;
    if (task.residual != nullptr) task.residual += g.outputs_per_group();
  }
}

void run_conv(const Packed& packed, const Operands& operands) {
  const auto& conv = std::get<QuadConv>(packed);
  const ConvGeometry& g = conv.geometry;
  const bool padded = conv.padded_height != 0;
  const std::size_t output_bytes = conv.epilogue.gives_codes ? sizeof(std::uint8_t) : sizeof(float);
  const std::size_t output_size = g.output_channels * g.output_positions();
  const Scratch place = scratch_of(conv);
  auto* scratch = as<std::uint8_t>(operands.scratch);
  QuadTask task = common_task(conv, operands);
  task.rows = g.output_height;
  task.columns = g.output_width;
  task.row_stride = g.stride_height * (padded ? conv.padded_width : g.input_width) * g.input_channels;
  task.column_stride = g.stride_width * g.input_channels;
  for (std::size_t sample = 0; sample < operands.batch; ++sample) {
    const std::uint8_t* input = as<std::uint8_t>(operands.inputs[0]) + sample * g.input_channels * g.input_positions();
    if (conv.input_is_planar) {
      transpose_codes(
          {.input = input, .output = scratch + place.input, .rows = g.input_channels, .columns = g.input_positions()});
      input = scratch + place.input;
    }
    if (conv.residual_is_planar) {
      transpose_codes({.input = as<std::uint8_t>(operands.inputs[1]) + sample * output_size,
                       .output = scratch + place.residual,
                       .rows = g.output_channels,
                       .columns = g.output_positions()});
      task.residual = scratch + place.residual;
    }
    if (padded) copy_with_borders(conv, input, as<std::uint8_t>(operands.scratch));
    task.input = padded ? as<std::uint8_t>(operands.scratch) : input;
    run_groups(conv, task);
    task.output = static_cast<std::byte*>(task.output) + output_size * output_bytes;
    if (task.residual != nullptr && !conv.residual_is_planar) task.residual += output_size;
  }
}

bool accepts_linear(const NodeView& view) {
  return view.has_codes() && view.input().shape.size() == 1;
}

Packed prepare_linear(const NodeView& view) {
  const auto& linear = std::get<Linear>(view.node.op);
  const ConvGeometry g{.input_channels = channel_count(view.input().shape),
                       .output_channels = channel_count(view.output().shape)};
  QuadConv packed{.geometry = g,
                  .input_zero_point = static_cast<std::uint8_t>(view.input().qparams->zero_point),
                  .run_offsets = {0},
                  .weights = {},
                  .bias = {},
                  .multipliers = {},
                  .output = {.channel = 1, .position = g.output_channels},
                  .epilogue = integer_epilogue(view, linear.adds_input, linear.clamp)};
  const Runs runs = find_runs(g);
  packed.quads_per_run = round_up(runs.bytes, quad) / quad;
  const Weights weights{.codes = integer_weights(view), .inputs = g.input_channels, .outputs = g.output_channels};
  pack(packed, runs, weights, integer_bias(view, g.output_channels));
  return packed;
}

void run_linear(const Packed& packed, const Operands& operands) {
  const auto& linear = std::get<QuadConv>(packed);
  QuadTask task = common_task(linear, operands);
  task.input = as<std::uint8_t>(operands.inputs[0]);
  task.columns = operands.batch;
  task.column_stride = linear.geometry.input_channels;
  convolve_quads(task);
}

}  // namespace

const Kernel quad_conv = {.name = "avx512_quad_conv",
                          .isa = Isa::avx512,
                          .accepts = accepts_conv,
                          .prepare = prepare_conv,
                          .run = run_conv,
                          .scratch_bytes = scratch_bytes};
const Kernel quad_linear = {.name = "avx512_quad_linear",
                            .isa = Isa::avx512,
                            .accepts = accepts_linear,
                            .prepare = prepare_linear,
                            .run = run_linear};

}  // namespace podaq::runtime_detail::avx512
