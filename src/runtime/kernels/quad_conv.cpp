
#include "runtime/kernels/quad_conv.h"

#include "runtime/kernels/absorption.h"
#include "runtime/kernels/avx512/plane_tasks.h"
#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/quad_packing.h"
#include "runtime/kernels/registry.h"
#include "runtime/kernels/weights.h"

namespace podaq::runtime_detail::avx512 {

namespace {

constexpr std::size_t lanes = 16;

bool accepts_conv(const NodeView& view) {
  const bool can_store = !view.gives_codes() || !is_planar(view.output(), view.output_layout());
  return view.has_codes() && can_store && groups_to_merge(geometry_of(view.graph, view.node), lanes) != 0;
}

Packed prepare_conv(const NodeView& view) {
  const auto& conv = std::get<Conv>(view.node.op);
  ConvGeometry g = geometry_of(view.graph, view.node);
  const GroupedWeights weights{.codes = integer_weights(view),
                               .inputs = g.channels_per_group(),
                               .outputs = g.outputs_per_group(),
                               .taps = g.taps()};
  g.groups /= groups_to_merge(g, lanes);
  QuadConv packed{.geometry = g,
                  .input_is_planar = is_planar(view.input(), view.input_layout()),
                  .residual_is_planar = conv.adds_input && is_planar(view.input(1), view.input_layout(1)),
                  .input_zero_point = static_cast<std::uint8_t>(view.input().qparams->zero_point),
                  .run_offsets = {},
                  .weights = {},
                  .bias = {},
                  .multipliers = {},
                  .output = strides_of(view.output().shape, view.output_layout()),
                  .epilogue = integer_epilogue(view, conv.adds_input, conv.clamp),
                  .quantizes = {}};
  if (!windows_lie_inside(g)) packed.plane = reached_plane(g);
  const WindowRuns runs = find_runs(g);
  packed.run_offsets = run_offsets(g, runs, packed.plane.is_needed() ? packed.plane.width : g.input_width);
  packed.quads_per_run = round_up(runs.bytes, quad) / quad;
  pack_quads(packed, runs, weights, integer_bias(view, g.output_channels), lanes);
  return packed;
}

// What the scratch memory holds: the input with its borders, then what had to be transposed.
struct Scratch {
  std::size_t input = 0, residual = 0, bytes = 0;  ///< Offsets, but the last.
};

Scratch scratch_of(const QuadConv& conv) {
  const ConvGeometry& g = conv.geometry;
  const auto area = [](std::size_t bytes) { return round_up(bytes + over_read_bytes, over_read_bytes); };
  Scratch scratch{.input = area(conv.plane.bytes(g))};
  scratch.residual = scratch.input + (conv.input_is_planar ? area(g.input_channels * g.input_positions()) : 0);
  scratch.bytes = scratch.residual + (conv.residual_is_planar ? g.output_channels * g.output_positions() : 0);
  return scratch;
}

std::size_t scratch_bytes(const Packed& packed) {
  return scratch_of(std::get<QuadConv>(packed)).bytes;
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
  const std::size_t row_width = conv.plane.is_needed() ? conv.plane.width : g.input_width;
  const std::size_t output_bytes = conv.epilogue.gives_codes ? sizeof(std::uint8_t) : sizeof(float);
  const Scratch place = scratch_of(conv);
  auto* scratch = as<std::uint8_t>(operands.scratch);
  QuadTask task = quad_task(conv, operands);
  task.rows = g.output_height / conv.pool_height;
  task.columns = g.output_width / conv.pool_width;
  task.pool_rows = conv.pool_height;
  task.pool_columns = conv.pool_width;
  task.row_stride = g.stride_height * row_width * g.input_channels;
  task.column_stride = g.stride_width * g.input_channels;
  const std::size_t output_size = g.output_channels * task.rows * task.columns;
  for (std::size_t sample = 0; sample < operands.batch; ++sample) {
    task.input = readable_input(conv, operands.inputs[0], sample, scratch, scratch + place.input);
    if (conv.residual_is_planar) {
      transpose_codes({.input = as<std::uint8_t>(operands.inputs[1]) + sample * output_size,
                       .output = scratch + place.residual,
                       .rows = g.output_channels,
                       .columns = g.output_positions()});
      task.residual = scratch + place.residual;
    }
    run_groups(conv, task);
    task.output = static_cast<std::byte*>(task.output) + output_size * output_bytes;
    if (task.residual != nullptr && !conv.residual_is_planar) task.residual += output_size;
  }
}

// Tiles hold whole results.
bool absorb_conv_reader(Packed& packed, const NodeView& reader) {
  auto& conv = std::get<QuadConv>(packed);
  const auto window = pool_to_absorb(conv, reader);
  if (!window || (window->height * window->width != 2 && window->height * window->width != 4)) return false;
  conv.pool_height = window->height;
  conv.pool_width = window->width;
  return true;
}

bool absorb_conv_producer(Packed& packed, const NodeView& producer) {
  return absorb_quantize(std::get<QuadConv>(packed), producer);
}

bool accepts_linear(const NodeView& view) {
  return view.has_codes() && view.input().shape.size() == 1;
}

bool absorb_linear_producer(Packed& packed, const NodeView& producer) {
  return absorb_flatten(std::get<QuadConv>(packed), producer);
}

}  // namespace

QuadTask quad_task(const QuadConv& conv, const Operands& operands) {
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
          .residual = conv.epilogue.adds_codes ? as<std::uint8_t>(operands.inputs[1]) : nullptr,
          .residual_position_stride = conv.geometry.output_channels,
          .epilogue = epilogue_task(conv.epilogue)};
}

QuadConv prepare_quad_linear(const NodeView& view, std::size_t quads_multiple) {
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
                  .epilogue = integer_epilogue(view, linear.adds_input, linear.clamp),
                  .quantizes = {}};
  const WindowRuns runs = find_runs(g);
  packed.quads_per_run = round_up(round_up(runs.bytes, quad) / quad, quads_multiple);
  const GroupedWeights weights{
      .codes = integer_weights(view), .inputs = g.input_channels, .outputs = g.output_channels};
  pack_quads(packed, runs, weights, integer_bias(view, g.output_channels), lanes);
  return packed;
}

void run_quad_linear(const QuadConv& linear, const Operands& operands) {
  QuadTask task = quad_task(linear, operands);
  task.input = as<std::uint8_t>(operands.inputs[0]);
  task.columns = operands.batch;
  task.column_stride = linear.geometry.input_channels;
  convolve_quads(task);
}

bool absorb_flatten(QuadConv& linear, const NodeView& producer) {
  if (!std::holds_alternative<Reshape>(producer.node.op) || producer.output().shape.size() != 1) return false;
  if (producer.input_layout() == Layout::channels_last)
    reorder_inputs(linear, channel_count(producer.input().shape), position_count(producer.input().shape));
  return true;
}

const Kernel quad_conv = {.name = "avx512_quad_conv",
                          .isa = Isa::avx512,
                          .accepts = accepts_conv,
                          .prepare = prepare_conv,
                          .run = run_conv,
                          .scratch_bytes = scratch_bytes,
                          .absorb_reader = absorb_conv_reader,
                          .absorb_producer = absorb_conv_producer};
const Kernel quad_linear = {
    .name = "avx512_quad_linear",
    .isa = Isa::avx512,
    .accepts = accepts_linear,
    .prepare = [](const NodeView& view) -> Packed { return prepare_quad_linear(view, 1); },
    .run = [](const Packed& packed,
              const Operands& operands) { run_quad_linear(std::get<QuadConv>(packed), operands); },
    .absorb_producer = absorb_linear_producer};

}  // namespace podaq::runtime_detail::avx512
