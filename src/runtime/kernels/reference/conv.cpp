#include <optional>

#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/registry.h"
#include "runtime/kernels/weights.h"

namespace podaq::runtime_detail::reference {

namespace {

// The input index that a tap of an output's window reads, or nothing where it lies in the padding.
std::optional<std::size_t> tap_index(std::size_t output, std::size_t stride, std::size_t tap, std::size_t dilation,
                                     std::size_t pad, std::size_t input_size) {
  const std::size_t padded = output * stride + tap * dilation;
  if (padded < pad || padded - pad >= input_size) return std::nullopt;
  return padded - pad;
}

// Calls visit(weight index, input channel, input position) for each tap of output (channel, row, column) that lies
// inside the input: input channels first, then taps row by row.
template <typename Visit>
void for_each_tap(const ConvGeometry& g, std::size_t channel, std::size_t row, std::size_t column, Visit visit) {
  const std::size_t first_input = channel / g.outputs_per_group() * g.channels_per_group();
  std::size_t weight = channel * g.channels_per_group() * g.taps();
  for (std::size_t input = first_input; input < first_input + g.channels_per_group(); ++input)
    for (std::size_t kernel_row = 0; kernel_row < g.kernel_height; ++kernel_row) {
      const auto y = tap_index(row, g.stride_height, kernel_row, g.dilation_height, g.pad_top, g.input_height);
      for (std::size_t kernel_column = 0; kernel_column < g.kernel_width; ++kernel_column, ++weight) {
        const auto x = tap_index(column, g.stride_width, kernel_column, g.dilation_width, g.pad_left, g.input_width);
        if (y && x) visit(weight, input, *y * g.input_width + *x);
      }
    }
}

// Calls compute(channel, position, row, column) for each output element.
template <typename Compute>
void for_each_output(const ConvGeometry& g, Compute compute) {
  for (std::size_t channel = 0; channel < g.output_channels; ++channel)
    for (std::size_t row = 0; row < g.output_height; ++row)
      for (std::size_t column = 0; column < g.output_width; ++column)
        compute(channel, row * g.output_width + column, row, column);
}

bool accepts_float(const NodeView& view) {
  return !view.has_codes() && !view.gives_codes();
}

Packed prepare_float(const NodeView& view) {
  const auto& conv = std::get<Conv>(view.node.op);
  const ConvGeometry geometry = geometry_of(view.graph, view.node);
  const std::vector<float> weights = float_weights(view);
  return FloatConv{.geometry = geometry,
                   .weights = {weights.begin(), weights.end()},
                   .tap_offsets = {},
                   .bias = float_bias(view, geometry.output_channels),
                   .adds_input = conv.adds_input,
                   .bounds = float_bounds(conv.clamp)};
}

void run_float(const Packed& packed, const Operands& operands) {
  const auto& conv = std::get<FloatConv>(packed);
  const ConvGeometry& g = conv.geometry;
  const std::size_t input_size = g.input_channels * g.input_positions();
  const std::size_t output_size = g.output_channels * g.output_positions();
  for (std::size_t sample = 0; sample < operands.batch; ++sample) {
    const float* input = as<float>(operands.inputs[0]) + sample * input_size;
    const float* residual = conv.adds_input ? as<float>(operands.inputs[1]) + sample * output_size : nullptr;
    float* output = as<float>(operands.output) + sample * output_size;
    for_each_output(g, [&](std::size_t channel, std::size_t position, std::size_t row, std::size_t column) {
      float sum = 0.0F;
      for_each_tap(g, channel, row, column, [&](std::size_t weight, std::size_t input_channel, std::size_t at) {
        sum = sum + input[input_channel * g.input_positions() + at] * conv.weights[weight];
      });
      const std::size_t index = channel * g.output_positions() + position;
      sum = sum + conv.bias[channel];
      if (residual != nullptr) sum = sum + residual[index];
      output[index] = bounded(sum, conv.bounds);
    });
  }
}

bool accepts_integer(const NodeView& view) {
  return view.has_codes();
}

Packed prepare_integer(const NodeView& view) {
  const auto& conv = std::get<Conv>(view.node.op);
  const ConvGeometry geometry = geometry_of(view.graph, view.node);
  return IntegerConv{.geometry = geometry,
                     .weights = integer_weights(view),
                     .bias = integer_bias(view, geometry.output_channels),
                     .input_zero_point = view.input().qparams->zero_point,
                     .input = strides_of(view.input().shape, view.input_layout()),
                     .output = strides_of(view.output().shape, view.output_layout()),
                     .residual = conv.adds_input ? strides_of(view.input(1).shape, view.input_layout(1)) : Strides{},
                     .epilogue = integer_epilogue(view, conv.adds_input, conv.clamp)};
}

void run_integer(const Packed& packed, const Operands& operands) {
  const auto& conv = std::get<IntegerConv>(packed);
  const ConvGeometry& g = conv.geometry;
  const std::size_t input_size = g.input_channels * g.input_positions();
  const std::size_t output_size = g.output_channels * g.output_positions();
  for (std::size_t sample = 0; sample < operands.batch; ++sample) {
    const std::uint8_t* input = as<std::uint8_t>(operands.inputs[0]) + sample * input_size;
    for_each_output(g, [&](std::size_t channel, std::size_t position, std::size_t row, std::size_t column) {
      std::int32_t sum = conv.bias[channel];
      for_each_tap(g, channel, row, column, [&](std::size_t weight, std::size_t input_channel, std::size_t at) {
        const std::int32_t code = input[input_channel * conv.input.channel + at * conv.input.position];
        sum += (code - conv.input_zero_point) * conv.weights[weight];
      });
      const auto index = [&](Strides strides) {
        return sample * output_size + channel * strides.channel + position * strides.position;
      };
      finish(conv.epilogue, sum, channel, index(conv.output), index(conv.residual), operands);
    });
  }
}

}  // namespace

const Kernel float_conv = {
    .name = "float_conv", .isa = Isa::reference, .accepts = accepts_float, .prepare = prepare_float, .run = run_float};
const Kernel integer_conv = {.name = "integer_conv",
                             .isa = Isa::reference,
                             .accepts = accepts_integer,
                             .prepare = prepare_integer,
                             .run = run_integer};

}  // namespace podaq::runtime_detail::reference
