#include "runtime/kernels/quad_conv.h"

#include "runtime/kernels/avx512/tasks.h"
#include "runtime/kernels/quad_packing.h"
#include "runtime/kernels/registry.h"
#include "runtime/kernels/weights.h"

namespace podaq::runtime_detail {

namespace {

constexpr std::size_t outputs_multiple = 16;

}  // namespace

GroupedWeights grouped_weights(const NodeView& view, const ConvGeometry& g) {
  return {.codes = integer_weights(view),
          .inputs = g.channels_per_group(),
          .outputs = g.outputs_per_group(),
          .taps = g.taps()};
}

QuadConv unpacked_conv(const NodeView& view, const ConvGeometry& geometry) {
  const auto& conv = std::get<Conv>(view.node.op);
  return {.geometry = geometry,
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
}

QuadConv prepare_quad_conv(const NodeView& view, std::size_t least_outputs) {
  ConvGeometry g = geometry_of(view.graph, view.node);
  const GroupedWeights weights = grouped_weights(view, g);
  g.groups /= groups_to_merge(g, least_outputs);
  QuadConv packed = unpacked_conv(view, g);
  if (!windows_lie_inside(g)) packed.plane = reached_plane(g);
  const WindowRuns runs = find_runs(g);
  packed.run_offsets = run_offsets(g, runs, packed.plane.is_needed() ? packed.plane.width : g.input_width);
  packed.quads_per_run = round_up(runs.bytes, quad) / quad;
  pack_quads(packed, runs, weights, folded_bias(view, weights.codes, g.output_channels), outputs_multiple);
  return packed;
}

QuadScratch quad_scratch(const QuadConv& conv) {
  const ConvGeometry& g = conv.geometry;
  const auto area = [](std::size_t bytes) { return round_up(bytes + over_read_bytes, over_read_bytes); };
  QuadScratch scratch{.input = area(conv.plane.bytes(g))};
  scratch.residual = scratch.input + (conv.input_is_planar ? area(g.input_channels * g.input_positions()) : 0);
  scratch.bytes = scratch.residual + (conv.residual_is_planar ? g.output_channels * g.output_positions() : 0);
  return scratch;
}

QuadTask quad_task(const QuadConv& conv, const Operands& operands) {
  return {.run_offsets = conv.run_offsets.data(),
          .runs = conv.run_offsets.size(),
          .quads_per_run = conv.quads_per_run,
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
  pack_quads(packed, runs, weights, folded_bias(view, weights.codes, g.output_channels), outputs_multiple);
  return packed;
}

QuadTask quad_linear_task(const QuadConv& linear, const Operands& operands) {
  QuadTask task = quad_task(linear, operands);
  task.input = as<std::uint8_t>(operands.inputs[0]);
  task.columns = operands.batch;
  task.column_stride = linear.geometry.input_channels;
  return task;
}

bool is_linear_over_one_row(const NodeView& view) {
  return view.has_codes() && view.input().shape.size() == 1;
}

bool absorb_small_pool(QuadConv& conv, const NodeView& reader) {
  const auto window = pool_to_absorb(conv.geometry, conv.epilogue, reader);
  if (!window || !is_small_pool(*window)) return false;
  conv.pool_height = window->height;
  conv.pool_width = window->width;
  return true;
}

bool absorb_flatten(QuadConv& linear, const NodeView& producer) {
  if (!std::holds_alternative<Reshape>(producer.node.op) || producer.output().shape.size() != 1) return false;
  if (producer.input_layout() == Layout::channels_last)
    reorder_inputs(linear, channel_count(producer.input().shape), position_count(producer.input().shape));
  return true;
}

namespace avx512 {

namespace {

bool accepts_conv(const NodeView& view) {
  const bool can_store = !view.gives_codes() || !is_planar(view.output(), view.output_layout());
  return view.has_codes() && can_store && groups_to_merge(geometry_of(view.graph, view.node), outputs_multiple) != 0;
}

Packed prepare_conv(const NodeView& view) {
  return prepare_quad_conv(view, outputs_multiple);
}

std::size_t scratch_bytes(const Packed& packed) {
  return quad_scratch(std::get<QuadConv>(packed)).bytes;
}

void run_conv(const Packed& packed, const Operands& operands) {
  const auto& conv = std::get<QuadConv>(packed);
  const std::size_t group_bytes = conv.weights.size() / conv.geometry.groups;
  for_each_group(conv, operands, [&](QuadTask task, std::size_t group) {
    task.weights = conv.weights.data() + group * group_bytes;
    convolve_quads(task);
  });
}

bool absorb_conv_reader(Packed& packed, const NodeView& reader) {
  return absorb_small_pool(std::get<QuadConv>(packed), reader);
}

bool absorb_conv_producer(Packed& packed, const NodeView& producer) {
  return absorb_quantize(std::get<QuadConv>(packed), producer, quantize_floats);
}

bool absorb_linear_producer(Packed& packed, const NodeView& producer) {
  return absorb_flatten(std::get<QuadConv>(packed), producer);
}

}  // namespace

void run_quad_linear(const QuadConv& linear, const Operands& operands) {
  QuadTask task = quad_linear_task(linear, operands);
  task.weights = linear.weights.data();
  convolve_quads(task);
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
    .accepts = is_linear_over_one_row,
    .prepare = [](const NodeView& view) -> Packed { return prepare_quad_linear(view, 1); },
    .run = [](const Packed& packed,
              const Operands& operands) { run_quad_linear(std::get<QuadConv>(packed), operands); },
    .absorb_producer = absorb_linear_producer};

}  // namespace avx512

}  // namespace podaq::runtime_detail
