#include "runtime/kernels/sparse_conv.h"

#include <algorithm>

#include "runtime/kernels/avx512/plane_tasks.h"
#include "runtime/kernels/avx512/sparse_tasks.h"
#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/quad_packing.h"
#include "runtime/kernels/registry.h"
#include "runtime/kernels/weights.h"

namespace podaq::runtime_detail {

void set_operand_layouts(SparseConv& conv, const NodeView& view) {
  const auto reads_planar = [&](std::size_t index) {
    return view.input_layout(index) == Layout::planar || position_count(view.input(index).shape) == 1;
  };
  conv.input_is_planar = reads_planar(0);
  conv.residual_is_planar = view.node.inputs.size() < 2 || reads_planar(1);
}

namespace avx512 {

namespace {

constexpr std::size_t line = 64;

bool accepts(const NodeView& view) {
  constexpr std::size_t largest_offset = std::size_t{1} << 30;
  if (!view.has_codes()) return false;
  const auto& conv = std::get<Conv>(view.node.op);
  if (view.gives_codes() && !integer_epilogue(view, conv.adds_input, conv.clamp).sums_fit) return false;
  if (view.gives_codes() && view.output_layout() != Layout::planar && position_count(view.output().shape) > 1)
    return false;
  const ConvGeometry g = geometry_of(view.graph, view.node);
  const std::size_t plane = (g.reached_height() + g.stride_height) * g.reached_width() + 3 * line;
  return g.input_channels * g.kernel_width * std::max(g.input_positions(), plane) < largest_offset;
}

// Whether the least code stands for 0 and there is no other limit.
bool is_rectified(const IntegerEpilogue& e) {
  return e.gives_codes && !e.adds_codes && e.zero_point == e.lowest && e.highest == 255;
}

Packed prepare(const NodeView& view) {
  const auto& conv = std::get<Conv>(view.node.op);
  SparseConv packed{.geometry = geometry_of(view.graph, view.node),
                    .input_zero_point = static_cast<std::uint8_t>(view.input().qparams->zero_point),
                    .epilogue = integer_epilogue(view, conv.adds_input, conv.clamp)};
  const ConvGeometry& g = packed.geometry;
  const std::vector<std::int8_t> codes = integer_weights(view);
  const std::vector<std::int32_t> bias = folded_bias(view, codes, g.output_channels);
  const SparseWeights weights{.geometry = g, .codes = codes, .bias = bias, .multipliers = packed.epilogue.multipliers};
  packed.program = make_sparse_program(weights);
  packed.rectifies = is_rectified(packed.epilogue) && has_small_sums(weights);
  if (packed.rectifies) rectify(packed.program);
  SparseInputPlan plan = plan_sparse_input(g, quads_of(packed.program));
  place_elements(packed.program, plan.offsets);
  packed.input = std::move(plan.input);
  packed.epilogue.multipliers = {};
  set_operand_layouts(packed, view);
  return packed;
}

// What the scratch memory holds, each at a multiple of 64 bytes.
struct Scratch {
  std::size_t input = 0, residual = 0, planes = 0, bytes = 0;  ///< Offsets; a panel's lines come first.
};

Scratch scratch_of(const SparseConv& conv) {
  const ConvGeometry& g = conv.geometry;
  const std::size_t input_bytes = conv.input_is_planar ? 0 : g.input_channels * g.input_positions() + over_read_bytes;
  const std::size_t residual_bytes = conv.residual_is_planar ? 0 : g.output_channels * g.output_positions();
  Scratch scratch{.input = round_up(lines_bytes(conv.input), line)};
  scratch.residual = scratch.input + round_up(input_bytes, line);
  scratch.planes = scratch.residual + round_up(residual_bytes, line);
  scratch.bytes = scratch.planes + planes_bytes(conv.input, g) + over_read_bytes;
  return scratch;
}

std::size_t scratch_bytes(const Packed& packed) {
  return scratch_of(std::get<SparseConv>(packed)).bytes;
}

SparseTask task_of(const SparseConv& conv, const Operands& operands) {
  const SparseProgram& program = conv.program;
  return {.positions = conv.geometry.output_positions(),
          .lines = conv.input.lines.data(),
          .line_count = conv.input.lines.size(),
          .line_bytes = conv.input.line_bytes,
          .panels_per_copy = conv.input.panels_per_copy,
          .inside = conv.input.inside.empty() ? nullptr : conv.input.inside.data(),
          .mask_count = conv.input.inside.size() / copy_count(conv.input, conv.geometry),
          .outside = conv.input_zero_point,
          .scratch = as<std::uint8_t>(operands.scratch),
          .runs = program.runs.data(),
          .run_count = program.runs.size(),
          .quads = program.quads.data(),
          .rows = program.rows.data(),
          .output = operands.output,
          .rectifies = conv.rectifies,
          .epilogue = epilogue_task(conv.epilogue)};
}

// The sample's codes in planar order: where they are, or transposed into `scratch`.
const std::uint8_t* planar(const std::uint8_t* codes, bool is_planar, std::size_t channels, std::size_t positions,
                           std::uint8_t* scratch) {
  if (is_planar) return codes;
  transpose_codes({.input = codes, .output = scratch, .rows = positions, .columns = channels});
  return scratch;
}

PlaneTask plane_task(const SparseConv& conv) {
  const ConvGeometry& g = conv.geometry;
  return {.channels = g.input_channels,
          .input_height = g.input_height,
          .input_width = g.input_width,
          .plane_bytes = conv.input.plane_bytes,
          .rows = conv.input.plane_rows,
          .width = g.output_width,
          .reached_rows = g.reached_height(),
          .pad_top = g.pad_top,
          .stride_height = g.stride_height,
          .stride_width = g.stride_width,
          .columns = conv.input.plane_columns.data(),
          .kernel_columns = conv.input.plane_columns.size(),
          .inside = conv.input.plane_inside.empty() ? nullptr : conv.input.plane_inside.data(),
          .body = conv.input.plane_body,
          .outside = conv.input_zero_point};
}

void run(const Packed& packed, const Operands& operands) {
  const auto& conv = std::get<SparseConv>(packed);
  const ConvGeometry& g = conv.geometry;
  const Scratch place = scratch_of(conv);
  auto* scratch = as<std::uint8_t>(operands.scratch);
  SparseTask task = task_of(conv, operands);
  const std::size_t input_size = g.input_channels * g.input_positions();
  const std::size_t output_size = g.output_channels * g.output_positions();
  const std::size_t output_bytes = output_size * (conv.epilogue.gives_codes ? sizeof(std::uint8_t) : sizeof(float));
  for (std::size_t sample = 0; sample < operands.batch; ++sample) {
    task.input = planar(as<std::uint8_t>(operands.inputs[0]) + sample * input_size, conv.input_is_planar,
                        g.input_channels, g.input_positions(), scratch + place.input);
    if (!conv.input.plane_columns.empty()) {
      PlaneTask copy = plane_task(conv);
      copy.input = task.input;
      copy.planes = scratch + place.planes;
      copy_planes(copy);
      task.input = copy.planes;
    }
    if (conv.epilogue.adds_codes)
      task.residual = planar(as<std::uint8_t>(operands.inputs[1]) + sample * output_size, conv.residual_is_planar,
                             g.output_channels, g.output_positions(), scratch + place.residual);
    convolve_sparse(task);
    task.output = static_cast<std::byte*>(task.output) + output_bytes;
  }
}

}  // namespace

const Kernel sparse_conv = {.name = "avx512_sparse_conv",
                            .isa = Isa::avx512,
                            .accepts = accepts,
                            .prepare = prepare,
                            .run = run,
                            .scratch_bytes = scratch_bytes};

}  // namespace avx512

}  // namespace podaq::runtime_detail
