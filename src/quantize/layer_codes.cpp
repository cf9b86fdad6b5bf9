#include "podaq/quantize/layer_codes.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "podaq/numerics/choose_qparams.h"
#include "podaq/numerics/quantize.h"
#include "quantize/fake_quantize_rows.h"

namespace podaq {
namespace {

void require_finite(const std::string& layer, std::string_view what, std::span<const float> values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]))
      throw Error(
          ErrorCode::invalid_argument,
          concat("layer '", layer, "': the ", what, " at index ", i,
                 " is not finite after batch-norm folding; the training has diverged, lower its learning rate"));
}

void require_safe_accumulator(const std::string& layer, std::size_t channel, std::span<const std::int8_t> codes,
                              std::int64_t bias_code) {
  constexpr std::int64_t largest_activation = 255;
  std::int64_t sum = 0;
  for (const std::int8_t code : codes) sum += std::abs(static_cast<int>(code));
  const std::int64_t reach = sum * largest_activation + std::abs(bias_code);
  if (reach >= std::int64_t{1} << 31)
    throw Error(ErrorCode::invalid_argument,
                concat("layer '", layer, "', channel ", channel, ": the int32 accumulator could reach ", reach,
                       ", which overflows; prune the layer, give it fewer weight bits, or keep it float "
                       "(quantize.float_layers)"));
}

}  // namespace

LayerCodes encode_layer(const std::string& layer, const Tensor& weight, const Tensor* bias,
                        const WeightQuantization& how, std::span<const float> learned, const QParams& input) {
  const std::span<const float> weights = elements<float>(weight);
  const std::span<const float> biases = bias == nullptr ? std::span<const float>() : elements<float>(*bias);
  require_finite(layer, "weight", weights);
  require_finite(layer, "bias", biases);

  const auto channels = static_cast<std::size_t>(weight.shape.at(0));
  const std::int32_t limit = numerics::weight_code_limit(how.bits);
  const std::vector<float> scales = choose_weight_scales(weights, channels, biases, how, learned, input);
  const std::size_t count = channels == 0 ? 0 : weights.size() / channels;

  std::vector<std::int8_t> codes(weights.size());
  std::vector<std::int32_t> bias_codes(biases.size());
  for (std::size_t c = 0; c < channels; ++c) {
    const QParams q = quantize_detail::channel_parameters(scales[c], limit);
    for (std::size_t i = c * count; i < (c + 1) * count; ++i)
      codes[i] = static_cast<std::int8_t>(numerics::quantize(weights[i], q));
    if (!biases.empty())
      bias_codes[c] = numerics::quantize_bias(biases[c], numerics::accumulator_scale(input.scale, scales[c]));
    require_safe_accumulator(layer, c, std::span(codes).subspan(c * count, count), biases.empty() ? 0 : bias_codes[c]);
  }

  LayerCodes result;
  result.weight = make_tensor<std::int8_t>(DType::s8, weight.shape, codes);
  result.weight.scales = scales;
  if (how.granularity == WeightGranularity::tensor && !scales.empty()) result.weight.scales.resize(1);
  result.weight.bits = how.bits;
  if (bias != nullptr) result.bias = make_tensor<std::int32_t>(DType::i32, bias->shape, bias_codes);
  return result;
}

}  // namespace podaq
