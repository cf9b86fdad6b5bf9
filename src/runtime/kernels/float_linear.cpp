#include <algorithm>

#include "runtime/kernels/avx2/tasks.h"
#include "runtime/kernels/avx512/tasks.h"
#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/linear_geometry.h"
#include "runtime/kernels/registry.h"
#include "runtime/kernels/weights.h"

namespace podaq::runtime_detail {

namespace {

constexpr std::size_t outputs_multiple = 16;
constexpr std::size_t block_outputs = 64;

bool accepts(const NodeView& view) {
  return !view.has_codes();
}

Packed prepare(const NodeView& view) {
  const auto& linear = std::get<Linear>(view.node.op);
  const LinearGeometry g = linear_geometry(view);
  const std::vector<float> weights = float_weights(view);
  FloatLinear packed{.geometry = g,
                     .weights = {},
                     .bias = float_bias(view, g.outputs),
                     .adds_input = linear.adds_input,
                     .bounds = float_bounds(linear.clamp)};
  const std::size_t padded_outputs = (g.outputs + outputs_multiple - 1) / outputs_multiple * outputs_multiple;
  packed.bias.resize(padded_outputs, 0.0F);
  packed.weights.assign(padded_outputs * g.inputs, 0.0F);
  for (std::size_t output = 0; output < g.outputs; ++output) {
    const std::size_t first_of_block = output / block_outputs * block_outputs;
    const std::size_t block_width = std::min(block_outputs, padded_outputs - first_of_block);
    float* block = packed.weights.data() + first_of_block * g.inputs;
    for (std::size_t i = 0; i < g.inputs; ++i)
      block[i * block_width + output - first_of_block] = weights[output * g.inputs + i];
  }
  return packed;
}

template <void (*multiply)(const FloatLinearTask&)>
void run(const Packed& packed, const Operands& operands) {
  const auto& linear = std::get<FloatLinear>(packed);
  const LinearGeometry& g = linear.geometry;
  multiply({.input = as<float>(operands.inputs[0]),
            .rows = operands.batch * g.rows,
            .inputs = g.inputs,
            .outputs = g.outputs,
            .weights = linear.weights.data(),
            .bias = linear.bias.data(),
            .output = as<float>(operands.output),
            .residual = linear.adds_input ? as<float>(operands.inputs[1]) : nullptr,
            .minimum = linear.bounds.minimum,
            .maximum = linear.bounds.maximum});
}

}  // namespace

const Kernel avx2::float_linear = {.name = "avx2_float_linear",
                                   .isa = Isa::avx2,
                                   .accepts = accepts,
                                   .prepare = prepare,
                                   .run = run<avx2::multiply_floats>};
const Kernel avx512::float_linear = {.name = "avx512_float_linear",
                                     .isa = Isa::avx512,
                                     .accepts = accepts,
                                     .prepare = prepare,
                                     .run = run<avx512::multiply_floats>};

}  // namespace podaq::runtime_detail
