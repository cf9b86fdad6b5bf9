#include "podaq/quantize/weight_scales.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "podaq/numerics/choose_qparams.h"
#include "podaq/numerics/quantize.h"

namespace podaq {
namespace {

constexpr QParams layer_input = {.scale = 0.02F, .zero_point = 30, .lowest = 0, .highest = 255};

std::span<const float> floats_of(const torch::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

double squared_error(std::span<const float> weights, float scale, int bits) {
  const std::int32_t limit = numerics::weight_code_limit(bits);
  double sum = 0;
  for (const float weight : weights) {
    const double rounded = numerics::fake_quantize(weight, scale, 1.0F / scale, 0, -limit, limit);
    sum += (rounded - weight) * (rounded - weight);
  }
  return sum;
}

TEST(LeastSquaresScale, IsTheBestOfAllFractionsOfTheLargest) {
  torch::manual_seed(1);
  for (const int bits : {2, 3, 4, 8}) {
    const torch::Tensor weights = torch::randn({300}) * 0.3;
    const float found = least_squares_scale(floats_of(weights), bits);
    const float widest = weights.abs().max().item<float>() / static_cast<float>(numerics::weight_code_limit(bits));
    double best = squared_error(floats_of(weights), widest, bits);
    for (int k = 1; k < 64; ++k)
      best = std::min(best, squared_error(floats_of(weights), widest * static_cast<float>(k) / 64, bits));
    EXPECT_LE(squared_error(floats_of(weights), found, bits), best * (1 + 1e-5)) << bits;
    EXPECT_LE(found, widest);
  }
}

TEST(LeastSquaresScale, LeavesWeightsOnAGridOnIt) {
  const torch::Tensor weights = torch::tensor({0.75F, -0.5F, 0.25F, 0.0F, -1.75F});
  EXPECT_FLOAT_EQ(least_squares_scale(floats_of(weights), 4), 0.25F);
  EXPECT_EQ(least_squares_scale(floats_of(torch::zeros({5})), 4), 0.0F);
}

TEST(WeightScales, AreOneForTheTensorWhereAskedAndRaisedForItsLargestBias) {
  torch::manual_seed(2);
  const torch::Tensor weights = torch::randn({3, 20});
  const float largest = weights.abs().max().item<float>();
  const WeightQuantization how{.bits = 8, .granularity = WeightGranularity::tensor};
  EXPECT_EQ(choose_weight_scales(floats_of(weights), 3, {}, how, {}, layer_input),
            std::vector<float>(3, largest / 127));
  const std::vector<float> bias = {0.0F, 1e9F, 0.0F};
  const std::vector<float> raised = choose_weight_scales(floats_of(weights), 3, bias, how, {}, layer_input);
  EXPECT_GT(raised[0], largest / 127);
  EXPECT_EQ(raised, std::vector<float>(3, raised[0]));
}

TEST(WeightScales, AreTheStepsWhereTheyHaveBegunToLearn) {
  torch::manual_seed(3);
  const torch::Tensor weights = torch::randn({3, 20});
  const std::vector<float> steps = {0.5F, 0.0F, 0.25F};
  const std::vector<float> scales =
      choose_weight_scales(floats_of(weights), 3, {}, {.bits = 4, .scale = WeightScale::learned}, steps, layer_input);
  EXPECT_EQ(scales[0], 0.5F);
  EXPECT_EQ(scales[1], least_squares_scale(floats_of(weights).subspan(20, 20), 4));
  EXPECT_EQ(scales[2], 0.25F);
}

}  // namespace
}  // namespace podaq
