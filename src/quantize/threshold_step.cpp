#include "podaq/quantize/threshold_step.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <vector>

#include "podaq/numerics/quantize.h"
#include "podaq/quantize/fake_quantize.h"

namespace podaq {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

// The largest integers that numerics::quantize rounds to.
constexpr std::int32_t most_steps = (1 << 22) - 1;

std::int32_t largest_code(int bits) {
  return (1 << (bits - 1)) - 1;
}

QParams parameters_of(float step, const ThresholdQuantization& quantization) {
  const std::int32_t limit =
      quantization.codes == ThresholdCodes::clamped ? largest_code(quantization.bits) : most_steps;
  return {.scale = step, .zero_point = 0, .lowest = -limit, .highest = limit};
}

class RoundToStep : public torch::autograd::Function<RoundToStep> {
 public:
  static torch::Tensor forward(AutogradContext* /*context*/, const torch::Tensor& weight, const QParams& q) {
    return fake_quantize(weight, q);
  }

  static variable_list backward(AutogradContext* /*context*/, const variable_list& gradients) {
    return {gradients[0], Variable()};
  }
};

int bits_for(std::int32_t largest) {
  int bits = 2;
  while (largest > largest_code(bits)) ++bits;
  return bits;
}

}  // namespace

float threshold_step(const torch::Tensor& weight, double threshold, const ThresholdQuantization& quantization) {
  const torch::NoGradGuard no_grad;
  if (weight.numel() == 0) return 0;
  torch::Tensor largest = weight.detach().abs().max();
  if (!largest.isfinite().item<bool>()) largest = weight.detach().abs().nan_to_num(0.0, 0.0, 0.0).max();
  const double most = largest.item<double>();
  const double above = most > threshold ? most - threshold : most;
  const auto step = static_cast<float>(above / largest_code(quantization.bits));
  const bool is_too_fine = quantization.codes == ThresholdCodes::verbatim && most > most_steps * double{step};
  return numerics::is_valid_scale(step) && !is_too_fine ? step : 0.0F;
}

torch::Tensor round_to_step(const torch::Tensor& weight, float step, const ThresholdQuantization& quantization) {
  if (step == 0) return weight;
  return RoundToStep::apply(weight, parameters_of(step, quantization));
}

std::optional<Tensor> encode_steps(const torch::Tensor& weight, float step, const ThresholdQuantization& quantization) {
  const torch::Tensor numbers = weight.detach().to(torch::kCPU, torch::kFloat).contiguous();
  if (step == 0 || !numbers.isfinite().all().item<bool>()) return std::nullopt;
  const QParams q = parameters_of(step, quantization);
  const std::span row(numbers.const_data_ptr<float>(), static_cast<std::size_t>(numbers.numel()));
  std::vector<std::int8_t> codes;
  codes.reserve(row.size());
  std::int32_t largest = 0;
  for (const float number : row) {
    const std::int32_t code = numerics::quantize(number, q);
    largest = std::max(largest, std::abs(code));
    codes.push_back(static_cast<std::int8_t>(code));  // kept only where it fits
  }
  if (largest > largest_code(8)) return std::nullopt;
  Tensor tensor = make_tensor<std::int8_t>(DType::s8, {numbers.sizes().begin(), numbers.sizes().end()}, codes);
  tensor.scales = {step};
  tensor.bits = bits_for(largest);
  return tensor;
}

}  // namespace podaq
