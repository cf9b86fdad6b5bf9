#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/linear_geometry.h"
#include "runtime/kernels/registry.h"
#include "runtime/kernels/weights.h"

namespace podaq::runtime_detail::reference {

namespace {

bool accepts_float(const NodeView& view) {
  return !view.has_codes();
}

Packed prepare_float(const NodeView& view) {
  const auto& linear = std::get<Linear>(view.node.op);
  const LinearGeometry geometry = linear_geometry(view);
  const std::vector<float> weights = float_weights(view);
  return FloatLinear{.geometry = geometry,
                     .weights = {weights.begin(), weights.end()},
                     .bias = float_bias(view, geometry.outputs),
                     .adds_input = linear.adds_input,
                     .bounds = float_bounds(linear.clamp)};
}

void run_float(const Packed& packed, const Operands& operands) {
  const auto& linear = std::get<FloatLinear>(packed);
  const LinearGeometry& g = linear.geometry;
  for (std::size_t row = 0; row < operands.batch * g.rows; ++row) {
    const float* input = as<float>(operands.inputs[0]) + row * g.inputs;
    for (std::size_t output = 0; output < g.outputs; ++output) {
      float sum = 0.0F;
      for (std::size_t i = 0; i < g.inputs; ++i) sum = sum + input[i] * linear.weights[output * g.inputs + i];
      const std::size_t index = row * g.outputs + output;
      sum = sum + linear.bias[output];
      if (linear.adds_input) sum = sum + as<float>(operands.inputs[1])[index];
      as<float>(operands.output)[index] = bounded(sum, linear.bounds);
    }
  }
}

bool accepts_integer(const NodeView& view) {
  return view.has_codes();
}

Packed prepare_integer(const NodeView& view) {
  const auto& linear = std::get<Linear>(view.node.op);
  const LinearGeometry geometry = linear_geometry(view);
  return IntegerLinear{.geometry = geometry,
                       .weights = integer_weights(view),
                       .bias = integer_bias(view, geometry.outputs),
                       .input_zero_point = view.input().qparams->zero_point,
                       .epilogue = integer_epilogue(view, linear.adds_input, linear.clamp)};
}

void run_integer(const Packed& packed, const Operands& operands) {
  const auto& linear = std::get<IntegerLinear>(packed);
  const LinearGeometry& g = linear.geometry;
  for (std::size_t sample = 0; sample < operands.batch; ++sample)
    for (std::size_t row = 0; row < g.rows; ++row) {
      const std::uint8_t* input =
          as<std::uint8_t>(operands.inputs[0]) + sample * g.rows * g.inputs + row_offset(g, row, g.input, g.inputs);
      const std::size_t first = sample * g.rows * g.outputs;
      const std::size_t first_output = first + row_offset(g, row, g.output, g.outputs);
      const std::size_t first_residual = first + row_offset(g, row, g.residual, g.outputs);
      for (std::size_t output = 0; output < g.outputs; ++output) {
        std::int32_t sum = linear.bias[output];
        for (std::size_t i = 0; i < g.inputs; ++i) {
          const std::int32_t code = input[i * g.input.position];
          sum += (code - linear.input_zero_point) * linear.weights[output * g.inputs + i];
        }
        finish(linear.epilogue, sum, output, first_output + output * g.output.position,
               first_residual + output * g.residual.position, operands);
      }
    }
}

}  // namespace

const Kernel float_linear = {.name = "float_linear",
                             .isa = Isa::reference,
                             .accepts = accepts_float,
                             .prepare = prepare_float,
                             .run = run_float};
const Kernel integer_linear = {.name = "integer_linear",
                               .isa = Isa::reference,
                               .accepts = accepts_integer,
                               .prepare = prepare_integer,
                               .run = run_integer};

}  // namespace podaq::runtime_detail::reference
