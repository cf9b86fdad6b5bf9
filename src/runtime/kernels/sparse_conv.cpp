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

// Windows of neighbouring positions are neighbours in the input itself where its rows are as long as the output's.
bool can_read_in_place(const ConvGeometry& g) {
  return g.stride_height == 1 && g.stride_width == 1 && g.input_width == g.output_width;
}

// Where a tap lies from its window's first element, in rows and columns of the input without its border.
struct TapPlace {
  std::ptrdiff_t row = 0, column = 0;
};

TapPlace place_of(const ConvGeometry& g, std::size_t tap) {
  return {.row = static_cast<std::ptrdiff_t>(tap / g.kernel_width * g.dilation_height) -
                 static_cast<std::ptrdiff_t>(g.pad_top),
          .column = static_cast<std::ptrdiff_t>(tap % g.kernel_width * g.dilation_width) -
                    static_cast<std::ptrdiff_t>(g.pad_left)};
}

// For each panel and tap, the positions whose element lies inside the input.
std::vector<std::uint64_t> inside_masks(const ConvGeometry& g) {
  const std::size_t panels = (g.output_positions() + panel_positions - 1) / panel_positions;
  std::vector<std::uint64_t> masks(panels * g.taps(), 0);
  const auto is_in = [](std::ptrdiff_t index, std::size_t size) {
    return index >= 0 && index < static_cast<std::ptrdiff_t>(size);
  };
  for (std::size_t position = 0; position < g.output_positions(); ++position)
    for (std::size_t tap = 0; tap < g.taps(); ++tap) {
      const TapPlace place = place_of(g, tap);
      const auto row = static_cast<std::ptrdiff_t>(position / g.output_width) + place.row;
      const auto column = static_cast<std::ptrdiff_t>(position % g.output_width) + place.column;
      if (is_in(row, g.input_height) && is_in(column, g.input_width))
        masks[position / panel_positions * g.taps() + tap] |= std::uint64_t{1} << (position % panel_positions);
    }
  return masks;
}

// The elements of the window in the input itself.
std::vector<WindowElement> elements_in_place(const ConvGeometry& g) {
  std::vector<WindowElement> elements;
  for (std::size_t channel = 0; channel < g.input_channels; ++channel)
    for (std::size_t tap = 0; tap < g.taps(); ++tap) {
      const TapPlace place = place_of(g, tap);
      const auto plane = static_cast<std::ptrdiff_t>(channel * g.input_positions());
      const std::ptrdiff_t offset = plane + place.row * static_cast<std::ptrdiff_t>(g.input_width) + place.column;
      elements.push_back({.offset = static_cast<std::int32_t>(offset), .tap = static_cast<std::uint32_t>(tap)});
    }
  return elements;
}

// The input columns that one column of the kernel meets.
PlaneColumns plane_columns(const ConvGeometry& g, std::size_t kernel_column) {
  PlaneColumns columns;
  for (std::size_t x = 0; x < g.output_width; ++x) {
    const std::size_t padded = x * g.stride_width + kernel_column * g.dilation_width;
    if (padded < g.pad_left || padded - g.pad_left >= g.input_width) continue;
    if (columns.count == 0) {
      columns.first = x;
      columns.source = padded - g.pad_left;
    }
    ++columns.count;
  }
  return columns;
}

// Describes the copy of the input and returns the elements of the window in it.
std::vector<WindowElement> lay_out_planes(SparseConv& packed) {
  constexpr std::size_t page = 4096;
  const ConvGeometry& g = packed.geometry;
  const std::size_t rows_per_phase = (g.reached_height() + g.stride_height - 1) / g.stride_height;
  packed.plane_rows = rows_per_phase * g.stride_height;
  packed.plane_bytes = packed.plane_rows * g.output_width;
  if (packed.plane_bytes % page == 0) packed.plane_bytes += line;  // planes would compete for the same cache lines
  for (std::size_t column = 0; column < g.kernel_width; ++column)
    packed.plane_columns.push_back(plane_columns(g, column));
  std::vector<WindowElement> elements;
  for (std::size_t channel = 0; channel < g.input_channels; ++channel)
    for (std::size_t tap = 0; tap < g.taps(); ++tap) {
      const std::size_t row = tap / g.kernel_width * g.dilation_height;
      const std::size_t plane = channel * g.kernel_width + tap % g.kernel_width;
      const std::size_t plane_row = row % g.stride_height * rows_per_phase + row / g.stride_height;
      elements.push_back(
          {.offset = static_cast<std::int32_t>(plane * packed.plane_bytes + plane_row * g.output_width), .tap = 0});
    }
  return elements;
}

std::size_t planes_bytes(const SparseConv& conv) {
  return conv.geometry.input_channels * conv.plane_columns.size() * conv.plane_bytes;
}

bool accepts(const NodeView& view) {
  constexpr std::size_t largest_offset = std::size_t{1} << 30;
  if (!view.has_codes()) return false;
  const auto& conv = std::get<Conv>(view.node.op);
  if (view.gives_codes() && !integer_epilogue(view, conv.adds_input, conv.clamp).sums_fit) return false;
  if (view.gives_codes() && view.output_layout() != Layout::planar && position_count(view.output().shape) > 1)
    return false;
  const ConvGeometry g = geometry_of(view.graph, view.node);
  const std::size_t plane = std::max(g.input_positions(), (g.reached_height() + g.stride_height) * g.output_width);
  return g.input_channels * g.kernel_width * plane < largest_offset;
}

Packed prepare(const NodeView& view) {
  const auto& conv = std::get<Conv>(view.node.op);
  SparseConv packed{.geometry = geometry_of(view.graph, view.node),
                    .input_zero_point = static_cast<std::uint8_t>(view.input().qparams->zero_point),
                    .inside = {},
                    .plane_columns = {},
                    .epilogue = integer_epilogue(view, conv.adds_input, conv.clamp)};
  const ConvGeometry& g = packed.geometry;
  packed.reads_in_place = can_read_in_place(g);
  if (packed.reads_in_place) packed.inside = inside_masks(g);
  const std::vector<WindowElement> elements = packed.reads_in_place ? elements_in_place(g) : lay_out_planes(packed);
  const std::vector<std::int8_t> codes = integer_weights(view);
  const std::vector<std::int32_t> bias = folded_bias(view, codes, g.output_channels);
  packed.program = make_sparse_program(
      {.geometry = g, .codes = codes, .elements = elements, .bias = bias, .multipliers = packed.epilogue.multipliers});
  packed.epilogue.multipliers = {};
  set_operand_layouts(packed, view);
  return packed;
}

// What the scratch memory holds, each at a multiple of 64 bytes.
struct Scratch {
  std::size_t sums = 0, input = 0, residual = 0, planes = 0, bytes = 0;  ///< Offsets; the pairs' codes come first.
};

Scratch scratch_of(const SparseConv& conv) {
  const ConvGeometry& g = conv.geometry;
  const std::size_t input_bytes = conv.input_is_planar ? 0 : g.input_channels * g.input_positions();
  const std::size_t residual_bytes = conv.residual_is_planar ? 0 : g.output_channels * g.output_positions();
  Scratch scratch{.sums = conv.program.most_pairs * pair_bytes};
  scratch.input = scratch.sums + conv.program.most_sums * panel_positions * sizeof(std::int32_t);
  scratch.residual = scratch.input + round_up(input_bytes, line);
  scratch.planes = scratch.residual + round_up(residual_bytes, line);
  scratch.bytes = scratch.planes + planes_bytes(conv) + over_read_bytes;
  return scratch;
}

std::size_t scratch_bytes(const Packed& packed) {
  return scratch_of(std::get<SparseConv>(packed)).bytes;
}

SparseTask task_of(const SparseConv& conv, const Operands& operands) {
  const SparseProgram& program = conv.program;
  return {.outside = conv.input_zero_point,
          .inside = conv.reads_in_place ? conv.inside.data() : nullptr,
          .taps = conv.geometry.taps(),
          .positions = conv.geometry.output_positions(),
          .blocks = program.blocks.data(),
          .block_count = program.blocks.size(),
          .pairs = program.pairs.data(),
          .runs = program.runs.data(),
          .quads = program.quads.data(),
          .rows = program.rows.data(),
          .pair_codes = as<std::uint8_t>(operands.scratch),
          .output = operands.output,
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
          .plane_bytes = conv.plane_bytes,
          .rows = conv.plane_rows,
          .width = g.output_width,
          .reached_rows = g.reached_height(),
          .pad_top = g.pad_top,
          .stride_height = g.stride_height,
          .stride_width = g.stride_width,
          .columns = conv.plane_columns.data(),
          .kernel_columns = conv.plane_columns.size(),
          .outside = conv.input_zero_point};
}

void run(const Packed& packed, const Operands& operands) {
  const auto& conv = std::get<SparseConv>(packed);
  const ConvGeometry& g = conv.geometry;
  const Scratch place = scratch_of(conv);
  auto* scratch = as<std::uint8_t>(operands.scratch);
  SparseTask task = task_of(conv, operands);
  task.sums = reinterpret_cast<std::int32_t*>(scratch + place.sums);
  const std::size_t input_size = g.input_channels * g.input_positions();
  const std::size_t output_size = g.output_channels * g.output_positions();
  const std::size_t output_bytes = output_size * (conv.epilogue.gives_codes ? sizeof(std::uint8_t) : sizeof(float));
  for (std::size_t sample = 0; sample < operands.batch; ++sample) {
    task.input = planar(as<std::uint8_t>(operands.inputs[0]) + sample * input_size, conv.input_is_planar,
                        g.input_channels, g.input_positions(), scratch + place.input);
    if (!conv.reads_in_place) {
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
