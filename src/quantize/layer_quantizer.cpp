#include "podaq/quantize/layer_quantizer.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <span>
#include <vector>

#include "podaq/numerics/choose_qparams.h"
#include "podaq/numerics/quantize.h"
#include "podaq/quantize/fake_quantize.h"
#include "podaq/quantize/learned_step.h"

namespace podaq {
namespace {

std::span<const float> floats_of(const torch::Tensor& cpu_tensor) {
  return {cpu_tensor.const_data_ptr<float>(), static_cast<std::size_t>(cpu_tensor.numel())};
}

// The same numbers as row-major floats on the CPU; no copy where they are that already.
torch::Tensor on_cpu(const torch::Tensor& tensor) {
  return tensor.detach().to(torch::kCPU, torch::kFloat).contiguous();
}

// The steps as they apply to the weight at hand, under autograd; undefined where none do.
torch::Tensor steps_at(const torch::Tensor& steps, const LayerParameters& parameters, const WeightQuantization& how) {
  const bool is_shared = how.granularity == WeightGranularity::tensor;
  if (!steps.defined() || how.scale != WeightScale::learned || (is_shared && !parameters.bias_is_final)) return {};
  if (is_shared || !parameters.factor.defined()) return steps;
  return steps * on_cpu(parameters.factor).abs();
}

std::vector<float> scales_for(const LayerParameters& parameters, const WeightQuantization& how, const QParams& input,
                              const torch::Tensor& learned) {
  const torch::Tensor weight = on_cpu(parameters.weight);
  const bool rounds_bias = parameters.bias.defined() && parameters.bias_is_final;
  const torch::Tensor bias = rounds_bias ? on_cpu(parameters.bias) : torch::Tensor();
  return choose_weight_scales(floats_of(weight), static_cast<std::size_t>(weight.size(0)),
                              rounds_bias ? floats_of(bias) : std::span<const float>(), how,
                              learned.defined() ? floats_of(learned) : std::span<const float>(), input);
}

}  // namespace

std::vector<float> layer_scales(const LayerParameters& parameters, const WeightQuantization& how, const QParams& input,
                                const torch::Tensor& steps) {
  return scales_for(parameters, how, input, steps_at(steps, parameters, how));
}

LayerParameters fake_quantize_layer(const LayerParameters& parameters, const WeightQuantization& how,
                                    const QParams& input, const torch::Tensor& steps) {
  const torch::Tensor learned = steps_at(steps, parameters, how);
  const std::vector<float> scales = scales_for(parameters, how, input, learned);
  const std::int32_t limit = numerics::weight_code_limit(how.bits);

  LayerParameters result = parameters;
  if (learned.defined() && learned.requires_grad())
    result.weight = fake_quantize_channels_learned(
        parameters.weight, learned, scales, limit,
        step_gradient_factor(parameters.weight.numel() / std::max<std::int64_t>(learned.numel(), 1), limit));
  else
    result.weight = fake_quantize_channels(parameters.weight, scales, limit);
  if (parameters.bias.defined() && parameters.bias_is_final) {
    std::vector<float> accumulator_scales(scales.size());
    std::transform(scales.begin(), scales.end(), accumulator_scales.begin(),
                   [&](float scale) { return numerics::accumulator_scale(input.scale, scale); });
    result.bias = fake_quantize_bias(parameters.bias, accumulator_scales);
  }
  return result;
}

}  // namespace podaq
