#include "podaq/numerics/math.h"
#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/registry.h"

namespace podaq::runtime_detail::reference {

namespace {

bool accepts_float(const NodeView& view) {
  return !view.has_codes();
}

Packed prepare(const NodeView& view) {
  const auto& softmax = std::get<Softmax>(view.node.op);
  const std::span<const std::int64_t> shape(view.output().shape);
  const auto axis = static_cast<std::size_t>(softmax.axis);
  return SoftmaxPacked{.outer = static_cast<std::size_t>(element_count(shape.first(axis))),
                       .length = static_cast<std::size_t>(shape[axis]),
                       .inner = static_cast<std::size_t>(element_count(shape.subspan(axis + 1))),
                       .logarithm = softmax.logarithm};
}

// One line of `length` elements, `step` apart.
void softmax_line(const float* input, float* output, std::size_t length, std::size_t step, bool logarithm) {
  float largest = input[0];
  for (std::size_t i = 1; i < length; ++i)
    if (input[i * step] > largest) largest = input[i * step];
  float sum = 0.0F;
  for (std::size_t i = 0; i < length; ++i) {
    const float shifted = input[i * step] - largest;
    const float power = numerics::exp(shifted);
    output[i * step] = logarithm ? shifted : power;
    sum = sum + power;
  }
  const float log_sum = logarithm ? numerics::log(sum) : 0.0F;
  for (std::size_t i = 0; i < length; ++i)
    output[i * step] = logarithm ? output[i * step] - log_sum : output[i * step] / sum;
}

void run(const Packed& packed, const Operands& operands) {
  const auto& softmax = std::get<SoftmaxPacked>(packed);
  const float* input = as<float>(operands.inputs[0]);
  float* output = as<float>(operands.output);
  for (std::size_t outer = 0; outer < operands.batch * softmax.outer; ++outer)
    for (std::size_t inner = 0; inner < softmax.inner; ++inner) {
      const std::size_t first = outer * softmax.length * softmax.inner + inner;
      softmax_line(input + first, output + first, softmax.length, softmax.inner, softmax.logarithm);
    }
}

}  // namespace

const Kernel softmax = {
    .name = "softmax", .isa = Isa::reference, .accepts = accepts_float, .prepare = prepare, .run = run};

}  // namespace podaq::runtime_detail::reference
