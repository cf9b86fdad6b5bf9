#include "podaq/quantize/weight_scales.h"

#include <algorithm>
#include <cmath>

#include "podaq/numerics/choose_qparams.h"
#include "quantize/fake_quantize_rows.h"

namespace podaq {
namespace {

float largest_magnitude(std::span<const float> weights) {
  float largest = 0.0F;
  for (const float weight : weights) {
    const float magnitude = std::abs(weight);
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

float scale_by_rule(std::span<const float> weights, const WeightQuantization& how) {
  if (how.scale != WeightScale::largest) return least_squares_scale(weights, how.bits);
  return largest_magnitude(weights) / static_cast<float>(numerics::weight_code_limit(how.bits));
}

}  // namespace

float least_squares_scale(std::span<const float> weights, int bits) {
  constexpr int candidates = 64;
  const std::int32_t limit = numerics::weight_code_limit(bits);
  const float widest = largest_magnitude(weights) / static_cast<float>(limit);
  float best = widest;
  double least = 0;
  for (int k = candidates; k >= 1; --k) {
    const float scale = widest * static_cast<float>(k) / static_cast<float>(candidates);
    if (!numerics::is_valid_scale(scale)) break;
    const QParams q = quantize_detail::channel_parameters(scale, limit);
    const double error = quantize_detail::squared_error_row(weights.data(), std::ssize(weights), q);
    if (k < candidates && !(error < least)) continue;
    least = error;
    best = scale;
  }
  return best;
}

std::vector<float> choose_weight_scales(std::span<const float> weights, std::size_t channels,
                                        std::span<const float> bias, const WeightQuantization& how,
                                        std::span<const float> learned, const QParams& input) {
  const auto bias_of = [&](std::size_t channel) { return bias.empty() ? 0.0F : bias[channel]; };
  const auto raised = [&](float scale, std::size_t channel) {
    return numerics::round_up_to_mantissa(numerics::raise_weight_scale(scale, bias_of(channel), input.scale),
                                          how.scale_mantissa_bits);
  };
  const bool has_learned = how.scale == WeightScale::learned && !learned.empty();
  std::vector<float> scales(channels);
  if (how.granularity == WeightGranularity::tensor) {
    const float own = has_learned && learned[0] > 0 ? learned[0] : scale_by_rule(weights, how);
    float shared = 0.0F;
    for (std::size_t c = 0; c < channels; ++c) shared = std::max(shared, raised(own, c));
    std::fill(scales.begin(), scales.end(), shared);
    return scales;
  }
  const std::size_t count = channels == 0 ? 0 : weights.size() / channels;
  for (std::size_t c = 0; c < channels; ++c) {
    const float own =
        has_learned && learned[c] > 0 ? learned[c] : scale_by_rule(weights.subspan(c * count, count), how);
    scales[c] = raised(own, c);
  }
  return scales;
}

}  // namespace podaq
