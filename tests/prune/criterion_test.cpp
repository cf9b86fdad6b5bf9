#include "podaq/prune/criterion.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>

#include "compress/network_builder.h"
#include "podaq/core/error.h"
#include "podaq/prune/gathered_scores.h"

namespace podaq {
namespace {

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

// One linear layer "only" with these weights.
std::shared_ptr<GraphModule> network_of(const torch::Tensor& weight) {
  test::NetworkBuilder net;
  const auto model = net.build({net.linear(net.input("input", {weight.size(1)}), "only", weight.size(0))});
  const torch::NoGradGuard no_grad;
  model->tensor("only.weight").copy_(weight);
  return model;
}

torch::Tensor scores(const Criterion& criterion, const Pattern& pattern, const torch::Tensor& weight,
                     const ScoreSources& sources = {}) {
  const auto model = network_of(weight);
  return score_units(criterion, pattern, *model, weighted_layers(model->graph()).at(0), sources).to(torch::kDouble);
}

void expect_near(const torch::Tensor& got, const std::vector<double>& expected) {
  EXPECT_TRUE(torch::allclose(got, torch::tensor(expected, torch::kDouble), 1e-6, 1e-12)) << got;
}

TEST(Criterion, HasOneNameThatReadsBack) {
  for (const char* name : {"magnitude_l1", "magnitude_l2", "taylor", "movement", "lamp", "geometric_median",
                           "batch_norm_scale", "random", "threshold"}) {
    ASSERT_TRUE(parse_criterion(name).has_value()) << name;
    EXPECT_EQ(name_of(*parse_criterion(name)), name);
  }
  EXPECT_FALSE(parse_criterion("custom").has_value());
  EXPECT_FALSE(parse_criterion("l1").has_value());
}

// Three small weights outweigh one large by their sum, but not by their squares.
TEST(MagnitudeCriteria, OrderBlocksByTheirOwnNorms) {
  const torch::Tensor weight = torch::tensor({{2.0F, 2.0F, 2.0F, 0.0F, 5.0F, 0.0F, 0.0F, 0.0F}});
  const Pattern quads = BlockPattern{.rows = 1, .columns = 4};
  expect_near(scores(MagnitudeL1{}, quads, weight), {6, 5});
  expect_near(scores(MagnitudeL2{}, quads, weight), {12, 25});
  expect_near(scores(MagnitudeL1{}, UnstructuredPattern{}, torch::tensor({{-1.0F, 0.5F}})), {1, 0.5});
}

TEST(LampCriterion, DividesByTheSquaresThatAreNoSmaller) {
  expect_near(scores(Lamp{}, UnstructuredPattern{}, torch::tensor({{1.0F, -3.0F, 2.0F}})), {1.0 / 14, 1, 4.0 / 13});
  expect_near(scores(Lamp{}, UnstructuredPattern{}, torch::zeros({1, 3})), {0, 0, 0});
  const torch::Tensor with_nan = scores(Lamp{}, UnstructuredPattern{}, torch::tensor({{1.0F, not_a_number, 2.0F}}));
  expect_near(with_nan.masked_select(with_nan.isfinite()), {0.2, 1});
}

TEST(GeometricMedianCriterion, PrunesTheChannelNearestToAllOthersFirst) {
  const torch::Tensor weight = torch::tensor({{0.0F, 0.0F}, {3.0F, 4.0F}, {6.0F, 8.0F}});
  expect_near(scores(GeometricMedian{}, ChannelPattern{}, weight), {15, 10, 15});
  const torch::Tensor pruned = torch::tensor({1, 0, 0}).to(torch::kBool);
  const torch::Tensor left =
      scores(GeometricMedian{}, ChannelPattern{}, weight, {.gathered = {}, .pruned_units = pruned});
  expect_near(left.slice(0, 1), {5, 5});
}

TEST(GeometricMedianCriterion, KeepsChannelsWithNanOutOfTheOthersDistances) {
  const torch::Tensor weight = torch::tensor({{0.0F, 0.0F}, {3.0F, 4.0F}, {not_a_number, 0.0F}});
  const torch::Tensor got = scores(GeometricMedian{}, ChannelPattern{}, weight);
  expect_near(got.slice(0, 0, 2), {5, 5});
  EXPECT_TRUE(std::isinf(got[2].item<double>()));
}

TEST(BatchNormScaleCriterion, IsTheWeightOfTheBatchNormBehindTheLayer) {
  const auto model = test::small_classifier();
  const WeightedLayer layer = weighted_layers(model->graph()).at(1);
  const torch::Tensor got = score_units(BatchNormScale{}, ChannelPattern{}, *model, layer, {});
  EXPECT_TRUE(got.equal(model->tensor("norm1.weight").detach().abs()));
}

TEST(RandomCriterion, DependsOnSeedLayerAndUnitAlone) {
  const auto model = test::small_classifier();
  const std::vector<WeightedLayer> layers = weighted_layers(model->graph());
  const auto draw = [&](std::uint64_t seed, std::size_t layer) {
    return score_units(RandomScore{.seed = seed}, UnstructuredPattern{}, *model, layers.at(layer), {});
  };
  const torch::Tensor first = draw(1, 1);
  torch::manual_seed(99);
  (void)torch::rand({5});
  EXPECT_TRUE(draw(1, 1).equal(first));
  EXPECT_FALSE(draw(2, 1).equal(first));
  EXPECT_FALSE(draw(1, 0).equal(first.slice(0, 0, draw(1, 0).numel())));
  EXPECT_NEAR(first.mean().item<double>() / 4294967296.0, 0.5, 0.1);
}

TEST(CustomCriterion, GetsLayerWeightAndGradient) {
  const auto model = network_of(torch::tensor({{1.0F, 2.0F}}));
  model->forward(torch::tensor({{3.0F, -5.0F}})).sum().backward();
  const WeightedLayer layer = weighted_layers(model->graph()).at(0);
  const CustomScore plus{
      .name = "plus", .score = [](const WeightedLayer& of, const torch::Tensor& weight, const torch::Tensor& gradient) {
        EXPECT_EQ(of.name, "only");
        return weight + gradient;
      }};
  expect_near(score_units(plus, UnstructuredPattern{}, *model, layer, {}).to(torch::kDouble), {4, -3});
  const CustomScore wrong{.name = "wrong",
                          .score = [](const auto&, const auto&, const auto&) { return torch::ones({3}); }};
  try {
    (void)score_units(wrong, UnstructuredPattern{}, *model, layer, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'only'"), std::string::npos) << error.what();
  }
}

// The sums of several steps, on dense floats (one pass) and on doubles and transposed gradients (ATen's operations).
TEST(GatheredScores, SumProductsOfWeightAndGradientOverSteps) {
  torch::manual_seed(4);
  for (const bool is_movement : {false, true})
    for (const bool is_double : {false, true})
      for (const bool is_transposed : {false, true}) {
        const auto model = network_of(torch::randn({3, 37}));
        if (is_double) model->to(torch::kDouble);
        const std::vector<WeightedLayer> layers = weighted_layers(model->graph());
        torch::Tensor weight = model->tensor("only.weight");
        const Criterion criterion = is_movement ? Criterion(Movement{}) : Criterion(Taylor{});
        GatheredScores sums;
        gather_scores(sums, criterion, *model, layers);
        EXPECT_TRUE(sums.empty()) << "there is no gradient yet";
        torch::Tensor expected = torch::zeros_like(weight.detach());
        for (int step = 0; step < 3; ++step) {
          torch::Tensor gradient = torch::randn_like(weight.detach());
          if (is_transposed) gradient = gradient.t().contiguous().t();
          weight.mutable_grad() = gradient;
          const torch::Tensor products = weight.detach() * gradient;
          expected += is_movement ? -products : products.abs();
          gather_scores(sums, criterion, *model, layers);
        }
        EXPECT_TRUE(torch::allclose(sums.at("only.weight"), expected, 1e-6, 1e-7));
      }
}

TEST(GatheredScores, LeaveOutProductsThatAreNotFinite) {
  const auto model = network_of(torch::tensor({{1.0F, 2.0F, 3.0F, not_a_number}}));
  torch::Tensor weight = model->tensor("only.weight");
  GatheredScores sums;
  const std::vector<WeightedLayer> layers = weighted_layers(model->graph());
  weight.mutable_grad() = torch::tensor({{not_a_number, std::numeric_limits<float>::infinity(), 2.0F, 1.0F}});
  gather_scores(sums, Taylor{}, *model, layers);
  expect_near(sums.at("only.weight").to(torch::kDouble).reshape({-1}), {0, 0, 6, 0});
}

// reference/amc.md 1.2: right after initialization erf(alpha / sqrt 2) of Gaussian weights lie below the threshold.
TEST(DeviationThresholdCriterion, MasksTheShareThatTheDistributionSays) {
  torch::manual_seed(6);
  for (const double alpha : {0.25, 0.75, 1.25}) {
    const auto share = [&](const torch::Tensor& weight) {
      return threshold_mask(weight, deviation_threshold(weight, alpha)).to(torch::kDouble).mean().item<double>();
    };
    EXPECT_NEAR(share(torch::randn({400, 250})), std::erf(alpha / std::sqrt(2.0)), 0.005);
    EXPECT_NEAR(share(torch::rand({400, 250}) * 2 - 1), alpha / std::sqrt(3.0), 0.005);
  }
}

TEST(DeviationThresholdCriterion, KeepsTheLargestAndWhatIsNotFinite) {
  const auto mask_of = [](const torch::Tensor& weight, double alpha) {
    return threshold_mask(weight, deviation_threshold(weight, alpha));
  };
  EXPECT_TRUE(mask_of(torch::tensor({1.0F, -1.0F, 1.5F}), 10).equal(torch::tensor({1, 1, 0}).to(torch::kBool)));
  EXPECT_EQ(mask_of(torch::zeros({5}), 1).sum().item<int>(), 0);
  EXPECT_EQ(mask_of(torch::ones({5}), 1).sum().item<int>(), 0);  // no deviation
  const torch::Tensor with_nan = mask_of(torch::tensor({not_a_number, 0.01F, 1.0F, -1.0F}), 0.5);
  EXPECT_TRUE(with_nan.equal(torch::tensor({0, 1, 0, 0}).to(torch::kBool)));
}

// The thesis's code keeps |w| > b, so that what equals the threshold goes.
TEST(DeviationThresholdCriterion, MasksWhatEqualsTheThreshold) {
  const torch::Tensor weight = torch::tensor({1.0F, -1.0F, 1.0F, -1.0F, 3.0F, -3.0F});
  EXPECT_TRUE(threshold_mask(weight, 1).equal(torch::tensor({1, 1, 1, 1, 0, 0}).to(torch::kBool)));
  EXPECT_EQ(threshold_mask(weight, 0.999).sum().item<int>(), 0);
}

TEST(DeviationThresholdCriterion, MasksWeightsOfAnyMemoryFormatAlike) {
  torch::manual_seed(7);
  const torch::Tensor conv = torch::randn({8, 4, 3, 3});
  const torch::Tensor linear = torch::randn({6, 10}).t();
  for (const double threshold : {0.5, 100.0}) {
    const torch::Tensor channels_last = conv.contiguous(torch::MemoryFormat::ChannelsLast);
    EXPECT_TRUE(threshold_mask(channels_last, threshold).equal(threshold_mask(conv, threshold)));
    EXPECT_TRUE(threshold_mask(linear, threshold).equal(threshold_mask(linear.contiguous(), threshold)));
  }
}

}  // namespace
}  // namespace podaq
