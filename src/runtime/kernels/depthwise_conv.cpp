#include "runtime/kernels/depthwise_conv.h"

#include <algorithm>
#include <utility>

#include "runtime/kernels/absorption.h"
#include "runtime/kernels/avx512/depthwise_task.h"
#include "runtime/kernels/avx512/plane_tasks.h"
#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/quad_conv.h"
#include "runtime/kernels/quad_packing.h"
#include "runtime/kernels/registry.h"
#include "runtime/kernels/weights.h"

namespace podaq::runtime_detail {

namespace avx512 {

namespace {

constexpr std::size_t line = 64;

// The kernel takes four rows of the window together: a convolution along one dimension alone has its window upright.
ConvGeometry upright(const ConvGeometry& g) {
  if (g.input_height != 1 || g.kernel_height != 1 || g.pad_top != 0 || g.output_height != 1) return g;
  ConvGeometry turned = g;
  std::swap(turned.input_height, turned.input_width);
  std::swap(turned.output_height, turned.output_width);
  std::swap(turned.kernel_height, turned.kernel_width);
  std::swap(turned.stride_height, turned.stride_width);
  std::swap(turned.pad_top, turned.pad_left);
  std::swap(turned.dilation_height, turned.dilation_width);
  return turned;
}

std::size_t row_quads(const ConvGeometry& upright_geometry) {
  return round_up(upright_geometry.kernel_height, quad) / quad;
}

bool accepts(const NodeView& view) {
  if (!view.has_codes()) return false;
  const auto& conv = std::get<Conv>(view.node.op);
  const ConvGeometry g = geometry_of(view.graph, view.node);
  if (g.groups == 1 || g.groups != g.input_channels || g.groups != g.output_channels) return false;
  if (!view.gives_codes()) return true;
  return !is_planar(view.output(), view.output_layout()) &&
         integer_epilogue(view, conv.adds_input, conv.clamp).sums_fit;
}

// Outputs of a row that share a vector.
std::size_t outputs_together(const ConvGeometry& upright_geometry) {
  const ConvGeometry& g = upright_geometry;
  const bool fits = g.stride_width == 1 && g.output_width > 1 && depthwise_lanes % g.input_channels == 0;
  return fits ? depthwise_lanes / g.input_channels : 1;
}

// Weights, bias and multipliers in the kernel's order, repeated for each output of a vector.
void pack_channels(QuadConv& packed, std::span<const std::int8_t> codes, std::span<const std::int32_t> bias) {
  const ConvGeometry g = upright(packed.geometry);
  const std::size_t padded = round_up(g.input_channels, depthwise_lanes);
  const std::size_t quads = row_quads(g);
  packed.padded_outputs = padded;
  packed.weights.assign(padded * g.kernel_width * quads * quad, 0);
  packed.bias.assign(padded, 0);
  packed.multipliers.assign(padded, 0.0F);
  for (std::size_t lane = 0; lane < outputs_together(g) * g.input_channels; ++lane) {
    const std::size_t channel = lane % g.input_channels;
    const std::size_t block = lane / depthwise_lanes * depthwise_lanes;
    const std::size_t place = depthwise_place(lane - block);
    packed.bias[block + place] = bias[channel];
    packed.multipliers[block + place] = packed.epilogue.multipliers[channel];
    std::int8_t* weights = packed.weights.data() + block * g.kernel_width * quads * quad;
    for (std::size_t tap = 0; tap < g.taps(); ++tap) {
      const std::size_t row = tap / g.kernel_width;
      const std::size_t item = tap % g.kernel_width * quads + row / quad;
      weights[(item * depthwise_lanes + place) * quad + row % quad] = codes[channel * g.taps() + tap];
    }
  }
  packed.epilogue.multipliers = {};
}

Packed prepare(const NodeView& view) {
  QuadConv packed = unpacked_conv(view, geometry_of(view.graph, view.node));
  const std::vector<std::int8_t> codes = integer_weights(view);
  pack_channels(packed, codes, folded_bias(view, codes, packed.geometry.output_channels));
  return packed;
}

// What the scratch memory holds: the columns of a strip, then what had to be transposed.
struct Scratch {
  std::size_t input = 0, residual = 0, bytes = 0;  ///< Offsets, but the last.
};

Scratch scratch_of(const QuadConv& conv) {
  const ConvGeometry g = upright(conv.geometry);
  const auto area = [](std::size_t bytes) { return round_up(bytes + over_read_bytes, line); };
  const std::size_t columns =
      (std::min(depthwise_strip, g.output_width) - 1) * g.stride_width + (g.kernel_width - 1) * g.dilation_width + 1;
  Scratch scratch{.input = columns * row_quads(g) * depthwise_column_bytes};
  scratch.residual = scratch.input + (conv.input_is_planar ? area(g.input_channels * g.input_positions()) : 0);
  scratch.bytes = scratch.residual + (conv.residual_is_planar ? area(g.output_channels * g.output_positions()) : 0);
  return scratch;
}

std::size_t scratch_bytes(const Packed& packed) {
  return scratch_of(std::get<QuadConv>(packed)).bytes;
}

DepthwiseTask task_of(const QuadConv& conv, const Operands& operands) {
  const ConvGeometry g = upright(conv.geometry);
  return {.channels = g.input_channels,
          .input_rows = g.input_height,
          .input_columns = g.input_width,
          .pad_rows = g.pad_top,
          .pad_columns = g.pad_left,
          .outside = conv.input_zero_point,
          .rows = g.output_height,
          .columns = g.output_width,
          .kernel_rows = g.kernel_height,
          .kernel_columns = g.kernel_width,
          .stride_rows = g.stride_height,
          .stride_columns = g.stride_width,
          .dilation_rows = g.dilation_height,
          .dilation_columns = g.dilation_width,
          .together = outputs_together(g),
          .weights = conv.weights.data(),
          .bias = conv.bias.data(),
          .multipliers = conv.multipliers.data(),
          .output = operands.output,
          .output_channel_stride = conv.output.channel,
          .output_position_stride = conv.output.position,
          .residual_position_stride = g.output_channels,
          .laid_out = as<std::uint8_t>(operands.scratch),
          .epilogue = epilogue_task(conv.epilogue)};
}

void run(const Packed& packed, const Operands& operands) {
  const auto& conv = std::get<QuadConv>(packed);
  const ConvGeometry& g = conv.geometry;
  const Scratch place = scratch_of(conv);
  auto* scratch = as<std::uint8_t>(operands.scratch);
  DepthwiseTask task = task_of(conv, operands);
  const std::size_t output_size = g.output_channels * g.output_positions();
  const std::size_t output_bytes = output_size * (conv.epilogue.gives_codes ? sizeof(std::uint8_t) : sizeof(float));
  for (std::size_t sample = 0; sample < operands.batch; ++sample) {
    task.input = readable_input(conv, operands.inputs[0], sample, nullptr, scratch + place.input);
    task.residual = readable_residual(conv, operands, sample, scratch + place.residual);
    convolve_depthwise(task);
    task.output = static_cast<std::byte*>(task.output) + output_bytes;
  }
}

}  // namespace

const Kernel depthwise_conv = {.name = "avx512_depthwise_conv",
                               .isa = Isa::avx512,
                               .accepts = accepts,
                               .prepare = prepare,
                               .run = run,
                               .scratch_bytes = scratch_bytes};

}  // namespace avx512

double depthwise_conv_ns(const ConvGeometry& geometry, const DepthwiseCoefficients& cost) {
  const ConvGeometry g = avx512::upright(geometry);
  const std::size_t blocks = round_up(g.input_channels, avx512::depthwise_lanes) / avx512::depthwise_lanes;
  const std::size_t together = avx512::outputs_together(g);
  const auto quads = static_cast<double>(avx512::row_quads(g));
  const auto columns = static_cast<double>(g.output_height * g.reached_width());
  const auto vectors = static_cast<double>(g.output_height * (round_up(g.output_width, together) / together));
  const double products = vectors * static_cast<double>(g.kernel_width) * quads;
  return cost.call + static_cast<double>(blocks) *
                         (cost.column * columns * quads + cost.product * products + cost.output * vectors);
}

}  // namespace podaq::runtime_detail
