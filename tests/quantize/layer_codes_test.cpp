#include "podaq/quantize/layer_codes.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>

#include "podaq/core/error.h"
#include "podaq/numerics/quantize.h"
#include "podaq/numerics/rounding.h"
#include "podaq/quantize/layer_quantizer.h"

namespace podaq {
namespace {

constexpr QParams input = {.scale = 0.02F, .zero_point = 30, .lowest = 0, .highest = 255};

Tensor as_tensor(const torch::Tensor& values) {
  const torch::Tensor rows = values.detach().contiguous();
  return make_tensor<float>(DType::f32, {rows.sizes().begin(), rows.sizes().end()},
                            {rows.const_data_ptr<float>(), static_cast<std::size_t>(rows.numel())});
}

// Channels as pruning and batch norms of gamma 0, 1e-8 and -1 leave them.
torch::Tensor awkward_weight() {
  torch::manual_seed(5);
  torch::Tensor weight = torch::randn({7, 3, 5}) * 0.1;
  weight[0].abs_();  // one-sided
  weight[1].abs_().neg_();
  weight[2].zero_();
  weight[3].mul_(0.0);  // gamma 0
  weight[4].mul_(1e-8);
  weight[5].mul_(-1.0);
  weight[6].mul_(1e-38);  // subnormal
  return weight;
}

std::vector<WeightQuantization> all_ways() {
  std::vector<WeightQuantization> ways;
  for (const int bits : {2, 4, 8})
    for (const WeightGranularity granularity : {WeightGranularity::channel, WeightGranularity::tensor})
      for (const WeightScale scale : {WeightScale::largest, WeightScale::least_squares, WeightScale::learned})
        ways.push_back({.bits = bits, .granularity = granularity, .scale = scale});
  return ways;
}

// What training rounds to is what the codes stand for, bit for bit.
TEST(LayerCodes, StandForExactlyTheFakeQuantizedNumbers) {
  const torch::Tensor weight = awkward_weight();
  const torch::Tensor bias = torch::tensor({0.3F, -0.2F, 5.0F, -0.7F, 0.1F, 0.0F, 100.0F});
  const torch::Tensor channel_steps = torch::tensor({0.01F, 0.02F, 0.0F, 1e-3F, 1e-10F, 0.001F, 1.0F});
  const torch::Tensor tensor_steps = torch::tensor({0.004F});
  for (const WeightQuantization& how : all_ways()) {
    const torch::Tensor steps = how.granularity == WeightGranularity::tensor ? tensor_steps : channel_steps;
    const std::span<const float> learned(steps.const_data_ptr<float>(), static_cast<std::size_t>(steps.numel()));
    const LayerParameters trained = fake_quantize_layer({.weight = weight, .bias = bias}, how, input, steps);
    const Tensor bias_tensor = as_tensor(bias);
    const LayerCodes codes = encode_layer("conv", as_tensor(weight), &bias_tensor, how, learned, input);
    const std::size_t scales = codes.weight.scales.size();
    ASSERT_EQ(scales, how.granularity == WeightGranularity::tensor ? 1U : 7U);
    const auto scale_of = [&](std::size_t channel) { return codes.weight.scales[scales == 1 ? 0 : channel]; };
    EXPECT_EQ(codes.weight.bits, how.bits);
    const auto weights = elements<std::int8_t>(codes.weight);
    const torch::Tensor row = trained.weight.contiguous();
    for (std::size_t i = 0; i < weights.size(); ++i)
      EXPECT_EQ(static_cast<float>(weights[i]) * scale_of(i / 15), row.const_data_ptr<float>()[i]) << i;
    const auto biases = elements<std::int32_t>(*codes.bias);
    for (std::size_t c = 0; c < 7; ++c) {
      const float scale = numerics::accumulator_scale(input.scale, scale_of(c));
      EXPECT_EQ(static_cast<float>(biases[c]) * scale, trained.bias[static_cast<std::int64_t>(c)].item<float>()) << c;
    }
  }
}

// pytorch PR #77434: gamma 0 must not give NaN; numerics.md 2.3: a one-sided channel keeps zero point 0.
TEST(LayerCodes, GiveDeadAndTinyChannelsValidScalesAndBiasesThatFit) {
  const torch::Tensor bias = torch::tensor({0.3F, -0.2F, 5.0F, -0.7F, 0.1F, 0.0F, 1.0e6F});
  const Tensor bias_tensor = as_tensor(bias);
  const LayerCodes codes = encode_layer("conv", as_tensor(awkward_weight()), &bias_tensor, {}, {}, input);
  for (std::size_t c = 0; c < 7; ++c) {
    const float scale = codes.weight.scales[c];
    EXPECT_TRUE(numerics::is_valid_scale(scale)) << c;
    EXPECT_TRUE(numerics::is_valid_scale(numerics::accumulator_scale(input.scale, scale))) << c;
    const double accumulator_scale = static_cast<double>(input.scale) * scale;
    const double real_bias = elements<std::int32_t>(*codes.bias)[c] * accumulator_scale;
    EXPECT_NEAR(real_bias, bias[static_cast<std::int64_t>(c)].item<float>(),
                0.5 * accumulator_scale + std::abs(real_bias) * 1e-6)
        << c;
  }
  const auto weights = elements<std::int8_t>(codes.weight);
  for (std::size_t i = 2 * 15; i < 4 * 15; ++i) EXPECT_EQ(weights[i], 0);
}

// FBGEMM PR #584, ao PR #4824 (the vectors of numerics.md 2.3): a one-sided channel neither gets a zero point nor twice
// the resolution in training, and a two-sided one has the same scale there as in the file.
TEST(LayerCodes, HaveZeroPointZeroAndOneScaleInTrainingAndFile) {
  const torch::Tensor weight = torch::tensor({{0.0F, 1.0F, 2.0F, 3.0F}, {-1.149422F, 2.533506F, 0.0F, 1.0F}});
  const auto encoded = [&](int bits) {
    return encode_layer("conv", as_tensor(weight), nullptr, {.bits = bits}, {}, input);
  };
  const LayerCodes eight = encoded(8);
  EXPECT_FLOAT_EQ(eight.weight.scales[0], 3.0F / 127);
  const auto codes = elements<std::int8_t>(eight.weight);
  EXPECT_EQ(std::vector<int>(codes.begin(), codes.begin() + 4), (std::vector<int>{0, 42, 85, 127}));
  const LayerCodes four = encoded(4);
  EXPECT_FLOAT_EQ(four.weight.scales[1], 2.533506F / 7);
  const torch::Tensor trained = fake_quantize_layer({.weight = weight, .bias = {}}, {.bits = 4}, input).weight;
  EXPECT_EQ(trained[1][1].item<float>(), 7 * four.weight.scales[1]);
  EXPECT_EQ(trained[1][0].item<float>(), -3 * four.weight.scales[1]);
}

// sparseml #408: pruned zeros stored as zero-point codes.
TEST(LayerCodes, KeepPrunedWeightsAtCodeZero) {
  torch::manual_seed(6);
  torch::Tensor weight = torch::randn({8, 40});
  const torch::Tensor pruned = torch::rand({8, 40}) < 0.9;
  weight.masked_fill_(pruned, 0.0);
  const LayerCodes codes = encode_layer("linear", as_tensor(weight), nullptr, {}, {}, input);
  EXPECT_FALSE(codes.bias.has_value());
  const auto weights = elements<std::int8_t>(codes.weight);
  const torch::Tensor row = pruned.contiguous();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (row.const_data_ptr<bool>()[i]) {
      EXPECT_EQ(weights[i], 0);
    }
  }
}

TEST(LayerCodes, RefuseALayerWhoseAccumulatorCouldOverflow) {
  constexpr std::int64_t inputs = 66400;  // 66400 * 127 * 255 > 2^31
  const torch::Tensor weight = torch::ones({1, inputs});
  try {
    (void)encode_layer("classifier.3", as_tensor(weight), nullptr, {}, {}, input);
    FAIL() << "an overflowing accumulator was accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("classifier.3"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("overflow"), std::string::npos) << error.what();
  }
  EXPECT_NO_THROW((void)encode_layer("classifier.3", as_tensor(weight), nullptr, {.bits = 7}, {}, input));
}

TEST(LayerCodes, RefuseNumbersThatAreNotFinite) {
  torch::Tensor weight = torch::ones({2, 3});
  weight[1][1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW((void)encode_layer("conv", as_tensor(weight), nullptr, {}, {}, input), Error);
}

TEST(LayerQuantizer, LeavesTheBiasAloneUntilItIsFinal) {
  const torch::Tensor weight = torch::randn({3, 4}).set_requires_grad(true);
  const torch::Tensor bias = torch::randn({3});
  const LayerParameters open = fake_quantize_layer({.weight = weight, .bias = bias, .bias_is_final = false}, {}, input);
  EXPECT_TRUE(open.bias.equal(bias));
  EXPECT_FALSE(open.bias_is_final);
  const LayerParameters none = fake_quantize_layer({.weight = weight, .bias = {}}, {}, input);
  EXPECT_FALSE(none.bias.defined());
  none.weight.sum().backward();
  EXPECT_TRUE(weight.grad().equal(torch::ones({3, 4})));
}

}  // namespace
}  // namespace podaq
