#include "podaq/prune/pruner.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>
#include <functional>
#include <limits>
#include <sstream>

#include "compress/network_builder.h"
#include "podaq/core/error.h"
#include "podaq/prune/selection.h"

namespace podaq {
namespace {

using test::small_classifier;

std::vector<PruneGroup> every_layer(const GraphModule& model, double sparsity) {
  std::vector<PruneGroup> groups;
  for (const WeightedLayer& layer : weighted_layers(model.graph()))
    groups.push_back({.layers = {layer}, .sparsity = sparsity});
  return groups;
}

// Elements whose four bytes are all zero: +0.0, neither -0.0 nor a rest of momentum.
std::int64_t count_zero_bits(const torch::Tensor& weight) {
  const torch::Tensor row = weight.detach().contiguous().reshape({-1});
  const auto* bits = reinterpret_cast<const std::uint32_t*>(row.const_data_ptr<float>());
  return std::count(bits, bits + row.numel(), 0U);
}

void train_step(GraphModule& model, torch::optim::Optimizer& optimizer) {
  optimizer.zero_grad();
  const torch::Tensor x = torch::randn({16, 2, 16});
  torch::nn::functional::cross_entropy(model.forward(x), torch::randint(4, {16}, torch::kLong)).backward();
  optimizer.step();
}

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor>)>;

class ZerosUnderOptimizer : public testing::TestWithParam<std::pair<std::string, MakeOptimizer>> {};

// tfmot PR #720, #721, #206; distiller PR #63: momentum and weight decay move masked weights.
TEST_P(ZerosUnderOptimizer, StayExactlyZeroInTheStoredTensorAfterEveryStep) {
  torch::manual_seed(3);
  const auto model = small_classifier();
  model->train();
  const auto optimizer = GetParam().second(model->parameters());
  Pruner pruner(*model, every_layer(*model, 0.8), {.schedule = {.begin = 2, .end = 12}});
  for (std::int64_t step = 1; step <= 25; ++step) {
    train_step(*model, *optimizer);
    pruner.update(*model, *optimizer, step);
    const double target = sparsity_at({.final_sparsity = 0.8, .begin = 2, .end = 12}, step);
    for (const WeightedLayer& layer : weighted_layers(model->graph())) {
      const torch::Tensor weight = model->tensor(layer.weight);
      const std::int64_t zeros = step < 2 ? 0 : zeros_at(target, weight.numel());
      EXPECT_EQ(count_zero_bits(weight), zeros) << layer.name << " after step " << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ZerosUnderOptimizer,
    testing::Values(
        std::pair<std::string, MakeOptimizer>("Adam",
                                              [](std::vector<torch::Tensor> parameters) {
                                                return std::make_unique<torch::optim::Adam>(
                                                    parameters, torch::optim::AdamOptions(0.01).weight_decay(0.01));
                                              }),
        std::pair<std::string, MakeOptimizer>("AdamW",
                                              [](std::vector<torch::Tensor> parameters) {
                                                return std::make_unique<torch::optim::AdamW>(
                                                    parameters, torch::optim::AdamWOptions(0.01).weight_decay(0.1));
                                              }),
        std::pair<std::string, MakeOptimizer>(
            "SgdWithMomentum",
            [](std::vector<torch::Tensor> parameters) {
              return std::make_unique<torch::optim::SGD>(
                  parameters, torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(0.01).nesterov(true));
            }),
        std::pair<std::string, MakeOptimizer>("RmsProp",
                                              [](std::vector<torch::Tensor> parameters) {
                                                return std::make_unique<torch::optim::RMSprop>(
                                                    parameters, torch::optim::RMSpropOptions(0.01).momentum(0.9));
                                              })),
    [](const auto& parameter) { return parameter.param.first; });

// pytorch/tutorials #905: sparsity "back to 0" after saving and loading.
TEST(PrunedNetwork, KeepsItsZerosThroughTorchSaveAndLoad) {
  const auto model = small_classifier();
  torch::optim::SGD optimizer(model->parameters(), 0.01);
  Pruner pruner(*model, every_layer(*model, 0.75), {.schedule = {.begin = 0, .end = 0}});
  pruner.update(*model, optimizer, 0);
  std::stringstream stream;
  torch::save(std::dynamic_pointer_cast<torch::nn::Module>(model), stream);
  const auto other = small_classifier(2, 16, 4, 99);
  auto loaded = std::dynamic_pointer_cast<torch::nn::Module>(other);
  torch::load(loaded, stream);
  for (const WeightedLayer& layer : weighted_layers(model->graph()))
    EXPECT_TRUE(test::same_bits(model->tensor(layer.weight), other->tensor(layer.weight))) << layer.name;
  EXPECT_EQ(count_zero_bits(other->tensor("conv1.weight")), zeros_at(0.75, 8 * 8 * 3));
}

TEST(ApplyMasks, WritesPositiveZeroOverNanInfinityAndNegatives) {
  const auto model = small_classifier();
  torch::Tensor weight = model->tensor("classifier.weight");
  const Masks masks = {{"classifier.weight", torch::ones_like(weight, torch::kBool)}};
  {
    const torch::NoGradGuard no_grad;
    weight[0].fill_(std::numeric_limits<float>::quiet_NaN());
    weight[1].fill_(-std::numeric_limits<float>::infinity());
    weight[2].fill_(-1.0F);
    weight[3].fill_(-0.0F);
  }
  apply_masks(*model, masks);
  EXPECT_EQ(count_zero_bits(weight), weight.numel());
}

TEST(ApplyMasks, LeavesOtherWeightsAndGradientsAlone) {
  const auto model = small_classifier();
  torch::Tensor weight = model->tensor("classifier.weight");
  const torch::Tensor before = weight.detach().clone();
  torch::Tensor mask = torch::zeros_like(weight, torch::kBool);
  mask[1][2] = true;
  apply_masks(*model, {{"classifier.weight", mask}});
  EXPECT_EQ(weight[1][2].item<float>(), 0.0F);
  EXPECT_TRUE(weight.detach().masked_select(mask.logical_not()).equal(before.masked_select(mask.logical_not())));
  EXPECT_TRUE(weight.requires_grad());
  EXPECT_TRUE(weight.is_leaf());
}

TEST(GlobalPruning, ReachesTheExactCountOverAllLayers) {
  const auto model = small_classifier();
  const std::vector<WeightedLayer> layers = weighted_layers(model->graph());
  torch::optim::SGD optimizer(model->parameters(), 0.01);
  Pruner pruner(*model, {{.layers = layers, .sparsity = 0.9}}, {.schedule = {.begin = 0, .end = 10}});
  std::int64_t weights = 0;
  for (const WeightedLayer& layer : layers) weights += model->tensor(layer.weight).numel();
  for (std::int64_t step = 0; step <= 12; ++step) {
    pruner.update(*model, optimizer, step);
    std::int64_t zeros = 0;
    for (const WeightedLayer& layer : layers) zeros += count_zero_bits(model->tensor(layer.weight));
    EXPECT_EQ(zeros,
              zeros_at(sparsity_at({.final_sparsity = 0.9, .begin = 0, .end = 10}, step), weights, std::ssize(layers)));
  }
}

std::string refusal(const GraphModule& model, const PrunerOptions& options, double sparsity = 0.5) {
  try {
    const Pruner pruner(model, every_layer(model, sparsity), options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return {};
}

void expect_names(const std::string& error, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(error.find(part), std::string::npos) << part << " in: " << error;
}

// C02: pytorch #27605.
TEST(Pruner, RefusesGradientCriteriaForALayerWithoutGradientsByName) {
  const auto model = small_classifier();
  model->tensor("conv1.weight").set_requires_grad(false);
  expect_names(refusal(*model, {.criterion = Taylor{}}), {"taylor", "'conv1'"});
  expect_names(refusal(*model, {.criterion = Movement{}}), {"movement", "'conv1'"});
  expect_names(refusal(*model, {.regrowth = Regrowth{}}), {"regrowth", "'conv1'"});
  EXPECT_EQ(refusal(*model, {.criterion = Taylor{}}, 0.0), "") << "nothing is pruned";
  EXPECT_EQ(refusal(*model, {.criterion = Lamp{}}), "");
}

TEST(Pruner, RefusesWhatDoesNotFitTogether) {
  const auto model = small_classifier();
  expect_names(refusal(*model, {.criterion = GeometricMedian{}}), {"geometric_median", "unstructured"});
  expect_names(refusal(*model, {.criterion = BatchNormScale{}, .pattern = BlockPattern{}}),
               {"batch_norm_scale", "4x1"});
  expect_names(refusal(*model, {.criterion = BatchNormScale{}, .pattern = ChannelPattern{}}), {"'classifier'"});
  expect_names(refusal(*model, {.criterion = DeviationThreshold{}, .pattern = BlockPattern{}}), {"threshold", "4x1"});
  expect_names(refusal(*model, {.criterion = DeviationThreshold{.alpha = 0}}), {"alpha", "(0, 10]"});
  expect_names(refusal(*model, {.criterion = CustomScore{.name = "mine", .score = {}}}), {"mine", "function"});
  expect_names(refusal(*model, {.pattern = NOfMPattern{.n = 4, .m = 4}}), {"n = 4", "m - 1"});
  expect_names(refusal(*model, {.pattern = BlockPattern{.rows = 0}}), {"rows = 0", "[1, 1024]"});
  expect_names(refusal(*model, {.pattern = NOfMPattern{}, .regrowth = Regrowth{}}), {"regrowth", "N:M"});
  expect_names(refusal(*model, {.regrowth = Regrowth{.fraction = 1.5}}), {"fraction = 1.5", "(0, 1]"});
  expect_names(refusal(*model, {.schedule = {.begin = 5, .end = 4}}), {"schedule"});
  expect_names(refusal(*model, {}, 1.0), {"sparsity is 1"});
}

TEST(Pruner, RefusesToPruneByGradientsItNeverSaw) {
  const auto model = small_classifier();
  torch::optim::SGD optimizer(model->parameters(), 0.01);
  Pruner pruner(*model, every_layer(*model, 0.5), {.criterion = Taylor{}, .schedule = {.begin = 0, .end = 2}});
  pruner.update(*model, optimizer, 0);
  train_step(*model, optimizer);
  optimizer.zero_grad();
  pruner.gather(*model, 1);
  try {
    pruner.update(*model, optimizer, 1);
    FAIL();
  } catch (const Error& error) {
    expect_names(error.what(), {"taylor", "conv0", "zero_grad"});
  }
}

TEST(PruneLayers, AreChosenByLayerOrWeightNameWithGlobs) {
  const WeightedLayer layer{.name = "features.0", .weight = "features.0.weight"};
  for (const char* glob : {"*", "features.0", "features.*", "features.?", "features.0.weight", "*.weight"})
    EXPECT_TRUE(chooses_layer(glob, layer)) << glob;
  for (const char* glob : {"", "features", "features.0.bias", "features.??", "classifier*"})
    EXPECT_FALSE(chooses_layer(glob, layer)) << glob;
}

TEST(PruneLayers, KnowTheirConvGroupsAndTheBatchNormBehindThem) {
  test::NetworkBuilder net;
  ValueId x = net.input("input", {4, 8});
  x = net.batch_norm(net.conv(x, "grouped", 6, 3, true, 2), "norm");
  x = net.relu(x, "relu");
  x = net.conv(x, "plain", 4, 1);
  const std::vector<WeightedLayer> layers = weighted_layers(net.build({x})->graph());
  ASSERT_EQ(layers.size(), 2U);
  EXPECT_EQ(layers[0].groups, 2);
  EXPECT_EQ(layers[0].batch_norm_weight, "norm.weight");
  EXPECT_EQ(layers[1].index, 1U);
  EXPECT_EQ(layers[1].batch_norm_weight, "");
}

TEST(PruneLayers, ListTiedWeightsOnce) {
  test::NetworkBuilder net;
  ValueId x = net.input("input", {4, 8});
  x = net.conv(x, "first", 4, 3);
  x = net.tied_conv(x, "second", "first");
  const auto model = net.build({x});
  const std::vector<WeightedLayer> layers = weighted_layers(model->graph());
  ASSERT_EQ(layers.size(), 1U);
  EXPECT_EQ(layers[0].name, "first");
}

}  // namespace
}  // namespace podaq
