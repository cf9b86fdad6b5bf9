#include "podaq/quantize/layer_quantizer.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <span>
#include <vector>

#include "podaq/numerics/choose_qparams.h"
#include "podaq/numerics/quantize.h"
#include "podaq/quantize/fake_quantize.h"
#include "podaq/quantize/layer_codes.h"

namespace podaq {
namespace {

std::span<const float> floats_of(const torch::Tensor& cpu_tensor) {
  return {cpu_tensor.const_data_ptr<float>(), static_cast<std::size_t>(cpu_tensor.numel())};
}

// The same numbers as row-major floats on the CPU; no copy where they are that already.
torch::Tensor on_cpu(const torch::Tensor& tensor) {
  return tensor.detach().to(torch::kCPU, torch::kFloat).contiguous();
}

}  // namespace

LayerParameters fake_quantize_layer(const LayerParameters& parameters, int bits, const QParams& input) {
  const torch::Tensor weight = on_cpu(parameters.weight);
  const bool rounds_bias = parameters.bias.defined() && parameters.bias_is_final;
  const torch::Tensor bias = rounds_bias ? on_cpu(parameters.bias) : torch::Tensor();

  const std::vector<float> largest = largest_magnitudes(floats_of(weight), static_cast<std::size_t>(weight.size(0)));
  const std::vector<float> scales =
      choose_weight_scales(largest, rounds_bias ? floats_of(bias) : std::span<const float>(), bits, input);

  LayerParameters result = parameters;
  result.weight = fake_quantize_channels(parameters.weight, scales, numerics::weight_code_limit(bits));
  if (rounds_bias) {
    std::vector<float> accumulator_scales(scales.size());
    std::transform(scales.begin(), scales.end(), accumulator_scales.begin(),
                   [&](float scale) { return numerics::accumulator_scale(input.scale, scale); });
    result.bias = fake_quantize_bias(parameters.bias, accumulator_scales);
  }
  return result;
}

}  // namespace podaq
