#include "runtime/kernels/avx2/tasks.h"
#include "runtime/kernels/avx512/tasks.h"
#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/float_packing.h"
#include "runtime/kernels/linear_geometry.h"
#include "runtime/kernels/registry.h"
#include "runtime/kernels/weights.h"

namespace podaq::runtime_detail {

namespace {

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
  packed.bias.resize(padded_float_outputs(g.outputs), 0.0F);
  append_float_matrix(weights, g.outputs, packed.weights);
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
