#include "podaq/compress/compressor.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "compress/network_builder.h"
#include "compress/refusals.h"
#include "compress/training_loop.h"
#include "podaq/core/error.h"

namespace podaq {
namespace {

using test::Batch;
using test::make_batch;
using test::run_recipe;
using test::small_classifier;
using test::train_step;

const auto next_batch = [] { return make_batch(16, 2, 16, 4); };

double sparsity_of(const GraphModule& model, const std::string& weight) {
  const torch::Tensor values = model.tensor(weight);
  return values.eq(0).to(torch::kDouble).mean().item<double>();
}

TEST(Compressor, WalksThroughAllStagesInOrder) {
  torch::manual_seed(1);
  const auto model = small_classifier();
  torch::optim::SGD optimizer(model->parameters(), 0.05);
  Compressor compressor(
      model,
      {.epochs =
           {.dense = 0.5, .prune = 1, .recover = 0.5, .quantize = 1, .freeze_batch_norm = 0.5, .freeze_observers = 0.5},
       .prune = PruneRecipe{.sparsity = 0.5},
       .quantize = QuantizeRecipe{}});
  EXPECT_EQ(compressor.epochs(), 4);
  compressor.attach(optimizer, {.steps_per_epoch = 4});
  std::vector<std::string> stages;
  std::vector<bool> frozen;
  std::vector<bool> settled;
  for (; compressor.epoch() < compressor.epochs(); compressor.end_epoch())
    for (int step = 0; step < 4; ++step) {
      stages.emplace_back(name_of(compressor.stage()));
      frozen.push_back(model->batch_norms_frozen());
      settled.push_back(compressor.settled());
      train_step(*model, optimizer, next_batch());
      compressor.step();
    }
  EXPECT_EQ(stages,
            (std::vector<std::string>{"dense", "dense", "prune", "prune", "prune", "prune", "recover", "recover",
                                      "quantize", "quantize", "quantize", "quantize", "freeze_batch_norm",
                                      "freeze_batch_norm", "freeze_observers", "freeze_observers"}));
  for (std::size_t i = 0; i < frozen.size(); ++i) {
    EXPECT_EQ(frozen[i], i >= 12) << i;
    EXPECT_EQ(settled[i], i >= 14) << i;
  }
  EXPECT_TRUE(compressor.settled());
  EXPECT_EQ(name_of(compressor.stage()), "freeze_observers");
}

TEST(Compressor, LeavesOutStagesWithoutLength) {
  const auto stages_of = [](const Recipe& recipe) {
    const auto model = small_classifier();
    torch::optim::SGD optimizer(model->parameters(), 0.05);
    Compressor compressor(model, recipe);
    compressor.attach(optimizer, {.steps_per_epoch = 2});
    std::vector<std::string> stages;
    run_recipe(*model, optimizer, compressor, 2, next_batch, [&] { stages.emplace_back(name_of(compressor.stage())); });
    stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
    return stages;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(stages_of({.epochs = {.dense = 2}}), Names{"dense"});
  EXPECT_EQ(stages_of({.epochs = {.prune = 1, .recover = 1}, .prune = PruneRecipe{.sparsity = 0.5}}),
            (Names{"prune", "recover"}));
  EXPECT_EQ(stages_of({.epochs = {.quantize = 2}, .quantize = QuantizeRecipe{}}), Names{"quantize"});
}

// C22: accelerate #963, optimum-intel PR #138.
TEST(Compressor, CountsOptimizerStepsUnderGradientAccumulation) {
  torch::manual_seed(2);
  test::NetworkBuilder net;
  const auto model = net.build({net.linear(net.input("input", {100}), "only", 100)});
  torch::optim::SGD optimizer(model->parameters(), 0.01);
  Compressor compressor(model, {.epochs = {.prune = 1}, .prune = PruneRecipe{.sparsity = 0.9}});
  compressor.attach(optimizer, {.steps_per_epoch = 400, .accumulation = 4});
  for (int micro_batch = 1; micro_batch <= 400; ++micro_batch) {
    model->forward(torch::randn({4, 100})).square().mean().backward();
    if (micro_batch % 4 != 0) continue;
    optimizer.step();
    compressor.step();
    optimizer.zero_grad();
    if (micro_batch == 100) {
      EXPECT_NEAR(sparsity_of(*model, "only.weight"), 0.5203125, 0.5 / 10000);
    }
  }
  EXPECT_EQ(sparsity_of(*model, "only.weight"), 0.9);
}

// C22: calls per accumulated batch are refused as soon as they exceed the epoch's optimizer steps.
TEST(Compressor, RefusesMoreStepsThanAnEpochHas) {
  const auto model = small_classifier();
  torch::optim::SGD optimizer(model->parameters(), 0.01);
  Compressor compressor(model, {.epochs = {.prune = 2}, .prune = PruneRecipe{.sparsity = 0.9}});
  compressor.attach(optimizer, {.steps_per_epoch = 10, .accumulation = 4});
  for (int step = 0; step < 3; ++step) compressor.step();
  const std::string error = test::refusal_of([&] { compressor.step(); });
  EXPECT_NE(error.find("more than 3 times in epoch 0"), std::string::npos) << error;
  EXPECT_NE(error.find("accumulated"), std::string::npos) << error;
  compressor.end_epoch();
  compressor.step();
  compressor.end_epoch();
  EXPECT_NE(test::refusal_of([&] { compressor.step(); }).find("all 2 epochs"), std::string::npos);
}

TEST(Compressor, EndsTheRampExactlyAlthoughTheLoaderGaveFewerBatches) {
  const auto model = small_classifier();
  torch::optim::SGD optimizer(model->parameters(), 0.01);
  Compressor compressor(model, {.epochs = {.prune = 1, .recover = 1}, .prune = PruneRecipe{.sparsity = 0.75}});
  compressor.attach(optimizer, {.steps_per_epoch = 10});
  for (int step = 0; step < 7; ++step) compressor.step();
  EXPECT_LT(sparsity_of(*model, "conv1.weight"), 0.75);
  compressor.end_epoch();
  EXPECT_EQ(sparsity_of(*model, "conv1.weight"), 0.75);
  EXPECT_EQ(compressor.stage(), Stage::recover);
}

// C25.
TEST(Compressor, TakesASparsityThatPrunesNothing) {
  for (const double sparsity : {0.0, 1e-9, 0.001}) {
    test::NetworkBuilder net;
    const auto model = net.build({net.linear(net.input("input", {100}), "only", 1)});
    torch::optim::SGD optimizer(model->parameters(), 0.01);
    Compressor compressor(model, {.epochs = {.prune = 1}, .prune = PruneRecipe{.sparsity = sparsity}});
    compressor.attach(optimizer, {.steps_per_epoch = 2});
    compressor.step();
    compressor.step();
    const CompressionReport report = compressor.report();
    ASSERT_EQ(report.layers.size(), 1U);
    EXPECT_EQ(report.layers[0].weights, 100);
    EXPECT_EQ(report.layers[0].zeros, 0);
    EXPECT_EQ(report.layers[0].masked, 0);
  }
}

// C02: pytorch #27605.
TEST(Compressor, LeavesAFrozenLayerAloneUnlessTheRecipeNamesIt) {
  torch::manual_seed(3);
  for (const bool is_named : {false, true}) {
    const auto model = small_classifier();
    torch::Tensor frozen = model->tensor("conv0.weight");
    frozen.set_requires_grad(false);
    const torch::Tensor before = frozen.clone();
    std::vector<torch::Tensor> parameters;
    for (const torch::Tensor& parameter : model->parameters())
      if (parameter.requires_grad()) parameters.push_back(parameter);
    torch::optim::SGD optimizer(parameters, torch::optim::SGDOptions(0.05).weight_decay(1e-2));
    PruneRecipe prune{.sparsity = 0.8};
    if (is_named) prune.layers = {"*", "conv0"};
    Compressor compressor(
        model, {.epochs = {.prune = 2, .recover = 1, .quantize = 2}, .prune = prune, .quantize = QuantizeRecipe{}});
    compressor.attach(optimizer, {.steps_per_epoch = 10});
    run_recipe(*model, optimizer, compressor, 10, next_batch);
    EXPECT_EQ(test::same_bits(frozen, before), !is_named);
    EXPECT_NEAR(sparsity_of(*model, "conv0.weight"), is_named ? 0.8 : 0.0, 0.02);
    EXPECT_NEAR(sparsity_of(*model, "conv1.weight"), 0.8, 0.01);
    EXPECT_NO_THROW((void)compressor.convert());
  }
}

TEST(Compressor, GivesLayersTheirOwnSparsityLastMatchFirst) {
  const auto model = small_classifier();
  torch::optim::SGD optimizer(model->parameters(), 0.01);
  Compressor compressor(
      model,
      {.epochs = {.prune = 1},
       .prune = PruneRecipe{.sparsity = 0.5,
                            .by_layer = {{.layers = "conv*", .sparsity = 0.75}, {.layers = "conv0", .sparsity = 0}}}});
  compressor.attach(optimizer, {.steps_per_epoch = 1});
  compressor.step();
  EXPECT_EQ(sparsity_of(*model, "conv0.weight"), 0.0);
  EXPECT_EQ(sparsity_of(*model, "conv1.weight"), 0.75);
  EXPECT_EQ(sparsity_of(*model, "classifier.weight"), 0.5);
}

TEST(Compressor, KeepsMasksFixedWhileQuantizing) {
  torch::manual_seed(4);
  const auto model = small_classifier();
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.01).weight_decay(0.01));
  Compressor compressor(model, {.epochs = {.prune = 1, .quantize = 2, .freeze_batch_norm = 1, .freeze_observers = 1},
                                .prune = PruneRecipe{.sparsity = 0.8, .distribution = Distribution::global},
                                .quantize = QuantizeRecipe{}});
  compressor.attach(optimizer, {.steps_per_epoch = 5});
  torch::Tensor mask;
  run_recipe(*model, optimizer, compressor, 5, next_batch, [&] {
    if (compressor.stage() == Stage::prune) return;
    const torch::Tensor zeros = model->tensor("conv1.weight") == 0;
    if (mask.defined()) {
      EXPECT_TRUE(zeros.equal(mask)) << name_of(compressor.stage());
    }
    mask = zeros;
  });
  EXPECT_TRUE(mask.defined());
}

TEST(Compressor, OneShotPrunesBeforeTheFirstStep) {
  const auto model = small_classifier();
  torch::optim::SGD optimizer(model->parameters(), 0.01);
  Compressor compressor(model, {.epochs = {.recover = 1}, .prune = PruneRecipe{.sparsity = 0.75}});
  compressor.attach(optimizer, {.steps_per_epoch = 1});
  EXPECT_EQ(sparsity_of(*model, "conv1.weight"), 0.75);
}

TEST(Compressor, RefusesToBeUsedOutOfOrder) {
  const auto model = small_classifier();
  Compressor compressor(model, {.epochs = {.dense = 1, .quantize = 1}, .quantize = QuantizeRecipe{}});
  EXPECT_NE(test::refusal_of([&] { compressor.step(); }).find("attach"), std::string::npos);
  EXPECT_NE(test::refusal_of([&] { compressor.end_epoch(); }).find("attach"), std::string::npos);
  torch::optim::SGD optimizer(model->parameters(), 0.01);
  EXPECT_NE(test::refusal_of([&] { compressor.attach(optimizer, {}); }).find("steps_per_epoch"), std::string::npos);
  EXPECT_NE(test::refusal_of([&] {
              compressor.attach(optimizer, {.steps_per_epoch = 5, .accumulation = 0});
            }).find("accumulation"),
            std::string::npos);
  const auto other = small_classifier();
  torch::optim::SGD stranger(other->parameters(), 0.01);
  EXPECT_NE(test::refusal_of([&] { compressor.attach(stranger, {.steps_per_epoch = 5}); }).find("parameters"),
            std::string::npos);
  compressor.attach(optimizer, {.steps_per_epoch = 5});
  EXPECT_NE(test::refusal_of([&] { (void)compressor.convert(); }).find("dense"), std::string::npos);
}

TEST(Compressor, RefusesStagesTooShortForAStepWhenItLearnsTheSteps) {
  const auto model = small_classifier();
  torch::optim::SGD optimizer(model->parameters(), 0.01);
  const auto refusal_of = [&](const Recipe& recipe, std::int64_t steps) -> std::string {
    Compressor compressor(model, recipe);
    try {
      compressor.attach(optimizer, {.steps_per_epoch = steps});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::recipe);
      EXPECT_NE(test::refusal_of([&] { compressor.step(); }).find("attach"), std::string::npos)
          << "attached all the same";
      return error.what();
    }
    return {};
  };
  const QuantizeRecipe codes;
  test::expect_names(
      refusal_of({.epochs = {.dense = 1, .quantize = 0.01, .freeze_observers = 1}, .quantize = codes}, 4),
      {"epochs.quantize", "0.01", "4 optimizer steps"});
  test::expect_names(refusal_of({.epochs = {.dense = 1, .prune = 0.02}, .prune = PruneRecipe{.sparsity = 0.5}}, 5),
                     {"epochs.prune", "0.02", "5 optimizer steps"});
  test::expect_names(refusal_of({.epochs = {.quantize = 1, .freeze_batch_norm = 0.1}, .quantize = codes}, 4),
                     {"epochs.freeze_batch_norm", "0.1"});
  test::expect_names(refusal_of({.epochs = {.quantize = 1, .freeze_observers = 0.1}, .quantize = codes}, 4),
                     {"epochs.freeze_observers", "0.1"});
  EXPECT_EQ(refusal_of({.epochs = {.dense = 1, .quantize = 0.01, .freeze_observers = 1}, .quantize = codes}, 400), "");
  EXPECT_EQ(refusal_of({.epochs = {.dense = 1.01, .prune = 1}, .prune = PruneRecipe{.sparsity = 0.5}}, 4), "");
}

TEST(Compressor, RefusesCountsOfStepsThatNoTrainingHas) {
  const auto model = small_classifier();
  torch::optim::SGD optimizer(model->parameters(), 0.01);
  Compressor compressor(model, {.epochs = {.prune = 1e6}, .prune = PruneRecipe{.sparsity = 0.5}});
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const auto refusal_of = [&](const AttachOptions& options) {
    return test::refusal_of([&] { compressor.attach(optimizer, options); });
  };
  for (const std::int64_t steps : {std::int64_t{100'000'001}, most})
    test::expect_names(refusal_of({.steps_per_epoch = steps}), {"steps_per_epoch", std::to_string(steps), "100000000"});
  for (const std::int64_t accumulation : {std::int64_t{100'000'001}, most})
    test::expect_names(refusal_of({.steps_per_epoch = 1, .accumulation = accumulation}),
                       {"accumulation", std::to_string(accumulation), "100000000"});
  EXPECT_EQ(refusal_of({.steps_per_epoch = 100'000'000}), "");
  compressor.step();
  EXPECT_EQ(compressor.stage(), Stage::prune);
}

TEST(Compressor, FollowsTheStepsOfTheLastAttachBeforeTraining) {
  const auto model = small_classifier();
  torch::optim::SGD optimizer(model->parameters(), 0.01);
  Compressor compressor(model, {.epochs = {.prune = 1}, .prune = PruneRecipe{.sparsity = 0.5}});
  compressor.attach(optimizer, {.steps_per_epoch = 100});
  compressor.attach(optimizer, {.steps_per_epoch = 2});
  compressor.step();
  compressor.step();
  EXPECT_EQ(sparsity_of(*model, "conv1.weight"), 0.5);
}

// design.md 4: every mask is fixed before conversion.
TEST(Compressor, RefusesToConvertBeforeMasksAreFixed) {
  const auto model = small_classifier();
  torch::optim::SGD optimizer(model->parameters(), 0.01);
  Compressor compressor(model,
                        {.epochs = {.dense = 1, .prune = 1.5, .recover = 0.5}, .prune = PruneRecipe{.sparsity = 0.5}});
  const auto refusal_now = [&] { return test::refusal_of([&] { (void)compressor.convert(); }); };
  test::expect_names(refusal_now(), {"attach", "epoch 2.5"});
  compressor.attach(optimizer, {.steps_per_epoch = 4});
  for (const char* epoch : {"epoch 0;", "epoch 0.25;", "epoch 0.5;", "epoch 0.75;", "epoch 1;", "epoch 1.25;",
                            "epoch 1.5;", "epoch 1.75;", "epoch 2;", "epoch 2.25;"}) {
    test::expect_names(refusal_now(), {"mask", "epoch 2.5", epoch});
    compressor.step();
    if (std::string_view(epoch).find(".75") != std::string_view::npos) compressor.end_epoch();
  }
  EXPECT_EQ(refusal_now(), "");
  EXPECT_EQ(sparsity_of(*model, "conv1.weight"), 0.5);
  compressor.step();
  EXPECT_EQ(refusal_now(), "");
}

TEST(Compressor, ConvertsWithoutPruningAtAnyTime) {
  const auto model = small_classifier();
  torch::optim::SGD optimizer(model->parameters(), 0.01);
  Compressor compressor(model, {.epochs = {.dense = 2}});
  EXPECT_NO_THROW((void)compressor.convert());
  compressor.attach(optimizer, {.steps_per_epoch = 4});
  compressor.step();
  EXPECT_NO_THROW((void)compressor.convert());
}

// C17: TinyNeuralNetwork #375.
TEST(Compressor, RefusesToConvertWhatWasNeverObserved) {
  const auto model = small_classifier();
  torch::optim::SGD optimizer(model->parameters(), 0.01);
  Compressor compressor(model, {.epochs = {.quantize = 1}, .quantize = QuantizeRecipe{}});
  compressor.attach(optimizer, {.steps_per_epoch = 1});
  const std::string error = test::refusal_of([&] { (void)compressor.convert(); });
  EXPECT_NE(error.find("no data observed"), std::string::npos) << error;
  EXPECT_NE(error.find("'input'"), std::string::npos) << error;
  EXPECT_NE(error.find("conv0"), std::string::npos) << error;
}

// C16: TorchAO #2138.
TEST(Compressor, RefusesToConvertALayerThatTrainedWithoutItsQuantizer) {
  const auto model = small_classifier();
  torch::optim::SGD optimizer(model->parameters(), 0.01);
  Compressor compressor(model, {.epochs = {.quantize = 1}, .quantize = QuantizeRecipe{}});
  compressor.attach(optimizer, {.steps_per_epoch = 4});
  model->train();
  train_step(*model, optimizer, next_batch());
  compressor.step();
  EXPECT_NO_THROW((void)compressor.convert());
  for (const Step& step : model->steps())
    if (model->graph().nodes[step.node].name == "classifier") model->set_parameter_hook(step.output, {});
  train_step(*model, optimizer, next_batch());
  compressor.step();
  const std::string error = test::refusal_of([&] { (void)compressor.convert(); });
  EXPECT_NE(error.find("classifier"), std::string::npos) << error;
}

TEST(Compressor, ReportsNanThatObserversMet) {
  const auto model = small_classifier();
  torch::optim::SGD optimizer(model->parameters(), 0.0);
  Compressor compressor(model, {.epochs = {.quantize = 1}, .quantize = QuantizeRecipe{}});
  compressor.attach(optimizer, {.steps_per_epoch = 1});
  torch::Tensor x = torch::randn({4, 2, 16});
  x[1][0][3] = std::numeric_limits<float>::quiet_NaN();
  model->train();
  model->forward(x);
  const CompressionReport report = compressor.report();
  EXPECT_EQ(report.not_finite_elements, (std::map<std::string, std::int64_t>{{"input", 1}}));
  EXPECT_NE(to_text(report).find("'input' held 1 NaN"), std::string::npos);
}

TEST(Compressor, ReportsZerosBitsAndEmptyChannelsByLayer) {
  const auto model = small_classifier();
  torch::optim::SGD optimizer(model->parameters(), 0.01);
  {
    const torch::NoGradGuard no_grad;
    model->tensor("classifier.weight")[2].zero_();
  }
  Compressor compressor(model, {.epochs = {.prune = 1, .quantize = 1},
                                .prune = PruneRecipe{.sparsity = 0.5},
                                .quantize = QuantizeRecipe{.float_layers = {"conv0"},
                                                           .weight_bits_by_layer = {{.names = "conv1", .bits = 4}}}});
  compressor.attach(optimizer, {.steps_per_epoch = 1});
  compressor.step();
  const CompressionReport report = compressor.report();
  ASSERT_EQ(report.layers.size(), 3U);
  EXPECT_EQ(report.layers[0].weight_bits, 32);
  EXPECT_EQ(report.layers[1].weight_bits, 4);
  EXPECT_EQ(report.layers[1].zeros, 96);
  EXPECT_EQ(report.layers[1].masked, 96);
  EXPECT_EQ(report.layers[2].weight_bits, 8);
  EXPECT_GE(report.layers[2].channels_at_zero, 1);
  EXPECT_NE(to_text(report).find("classifier"), std::string::npos);
  EXPECT_NE(compressor.placement_text().find("conv1"), std::string::npos);
}

TEST(Compressor, TrainsSeveralParameterGroups) {
  torch::manual_seed(5);
  const auto model = small_classifier();
  std::vector<torch::Tensor> weights;
  std::vector<torch::Tensor> others;
  for (const torch::Tensor& parameter : model->parameters())
    (parameter.dim() > 1 ? weights : others).push_back(parameter);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(weights,
                      std::make_unique<torch::optim::AdamOptions>(torch::optim::AdamOptions(0.01).weight_decay(1e-2)));
  groups.emplace_back(others, std::make_unique<torch::optim::AdamOptions>(0.001));
  torch::optim::Adam optimizer(groups, torch::optim::AdamOptions(0.01));
  Compressor compressor(
      model,
      {.epochs = {.prune = 1, .quantize = 1}, .prune = PruneRecipe{.sparsity = 0.75}, .quantize = QuantizeRecipe{}});
  compressor.attach(optimizer, {.steps_per_epoch = 5});
  run_recipe(*model, optimizer, compressor, 5, next_batch,
             [&] { EXPECT_LE(sparsity_of(*model, "conv1.weight"), 0.75); });
  EXPECT_EQ(sparsity_of(*model, "conv1.weight"), 0.75);
  EXPECT_NO_THROW((void)compressor.convert());
}

// Two would quantize each other's weights, and the file would hold what neither trained.
TEST(Compressor, RefusesANetworkThatStillHasAnotherOnesQuantizers) {
  const auto model = small_classifier();
  const Recipe recipe{.quantize = QuantizeRecipe{}};
  {
    Compressor first(model, recipe);
    first.calibrate(std::vector<torch::Tensor>{torch::randn({8, 2, 16})});
  }
  EXPECT_TRUE(model->has_hooks()) << "the network goes on computing what was converted";
  test::expect_names(test::refusal_of(ErrorCode::invalid_argument, [&] { const Compressor second(model, recipe); }),
                     {"hooks", "clear_hooks"});
  model->clear_hooks();
  EXPECT_NO_THROW(Compressor(model, recipe));
}

}  // namespace
}  // namespace podaq
