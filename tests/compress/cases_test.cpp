#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>

#include "compress/agreement.h"
#include "compress/network_builder.h"
#include "compress/refusals.h"
#include "compress/training_loop.h"
#include "podaq/capture/capture.h"
#include "podaq/compress/compressor.h"
#include "podaq/core/error.h"
#include "podaq/quantize/fake_quantize.h"
#include "support/temporary_folder.h"

namespace podaq {
namespace {

struct NetWithoutBias : torch::nn::Module {
  NetWithoutBias() {
    register_module("conv", conv);
    register_module("norm", norm);
    register_module("linear", linear);
  }

  torch::Tensor forward(const torch::Tensor& x) {
    return linear->forward(torch::relu(norm->forward(conv->forward(x))).mean(-1));
  }

  torch::nn::Conv1d conv{torch::nn::Conv1dOptions(2, 8, 3).bias(false)};
  torch::nn::BatchNorm1d norm{8};
  torch::nn::Linear linear{torch::nn::LinearOptions(8, 4).bias(false)};
};

void expect_four_defined_parameters(const GraphModule& model) {
  EXPECT_EQ(model.parameters().size(), 4U);
  for (const auto& item : model.named_parameters()) EXPECT_TRUE(item.value().defined()) << item.key();
}

// C01: pytorch #30508, a layer without bias leaves an undefined tensor that breaks moving the module, then the
// optimizer.
TEST(Case01, LayersWithoutBiasTrainCloneCheckpointAndConvert) {
  torch::manual_seed(1);
  const auto model = capture(std::make_shared<NetWithoutBias>(), torch::randn({2, 2, 16}));
  model->to(torch::kDouble);
  model->to(torch::kFloat);
  expect_four_defined_parameters(*model);

  const Recipe recipe{.epochs = {.quantize = 1}, .quantize = QuantizeRecipe{}};
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.01));
  Compressor compressor(model, recipe);
  compressor.attach(optimizer, {.steps_per_epoch = 3});
  model->train();
  for (int step = 0; step < 3; ++step) {
    test::train_step(*model, optimizer, test::make_batch(16, 2, 16, 4));
    compressor.step();
    expect_four_defined_parameters(*model);
  }

  const auto copy = std::dynamic_pointer_cast<GraphModule>(model->clone());
  expect_four_defined_parameters(*copy);

  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "checkpoint";
  compressor.save_checkpoint(path);
  torch::optim::Adam copy_optimizer(copy->parameters(), torch::optim::AdamOptions(0.5));
  Compressor resumed(copy, recipe);
  resumed.attach(copy_optimizer, {.steps_per_epoch = 3});
  resumed.load_checkpoint(path);
  expect_four_defined_parameters(*copy);

  const Graph graph = resumed.convert();
  EXPECT_EQ(graph, compressor.convert());
  const torch::Tensor x = torch::randn({20, 2, 16});
  for (const test::NodeDistance& distance : test::node_distances(graph, test::record_values(*copy, graph, {x})))
    EXPECT_LE(distance.steps, distance.is_float ? 1e-5 : 1.001) << distance.node;
}

// C22 and design.md 3: the four strategies are four recipes of one mechanism.
TEST(OneMechanism, RunsDensePruneQuantizeAndBothOnTheSameNetwork) {
  for (const bool prunes : {false, true})
    for (const bool quantizes : {false, true}) {
      torch::manual_seed(2);
      const auto model = capture(std::make_shared<NetWithoutBias>(), torch::randn({2, 2, 16}));
      torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
      Recipe recipe{.epochs = {.dense = 1}};
      if (prunes) {
        recipe.epochs.prune = 1;
        recipe.prune = PruneRecipe{.sparsity = 0.5};
      }
      if (quantizes) {
        recipe.epochs.quantize = 1;
        recipe.quantize = QuantizeRecipe{};
      }
      Compressor compressor(model, recipe);
      compressor.attach(optimizer, {.steps_per_epoch = 6});
      test::run_recipe(*model, optimizer, compressor, 6, [] { return test::make_batch(16, 2, 16, 4); });
      const Graph graph = compressor.convert();
      const Tensor& weight = tensor_at(graph, "conv.weight");
      EXPECT_EQ(weight.dtype, quantizes ? DType::s8 : DType::f32);
      EXPECT_EQ((model->tensor("conv.weight") == 0).sum().item<std::int64_t>(), prunes ? 24 : 0);

      model->eval();
      const torch::NoGradGuard no_grad;
      const torch::Tensor x = torch::randn({10, 2, 16});
      const torch::Tensor expected = model->forward(x);
      EXPECT_LT((test::run_graph(graph, {x}).at(0) - expected).abs().max().item<double>(),
                0.03 * expected.abs().max().item<double>());
    }
}

const Value& value_named(const Graph& graph, const std::string& name) {
  return *std::ranges::find(graph.values, name, &Value::name);
}

// C16: pytorch/ao #2138, fake quantization was off on some layers while their observers ran on.
TEST(Case16, ALayerThatTrainedWithoutItsQuantizerIsRefusedAndTheOthersKeepTheirLastParameters) {
  torch::manual_seed(3);
  const auto model = test::small_classifier();
  torch::optim::SGD optimizer(model->parameters(), 0.01);
  Compressor compressor(model, {.epochs = {.quantize = 1}, .quantize = QuantizeRecipe{}});
  compressor.attach(optimizer, {.steps_per_epoch = 200});
  model->train();
  const auto train = [&](int steps, const std::function<void()>& before_step) {
    for (int step = 0; step < steps; ++step) {
      before_step();
      test::train_step(*model, optimizer, test::make_batch(8, 2, 16, 4));
      compressor.step();
    }
  };
  train(150, [] {});

  // What the file says of a value is what the last forward pass rounded with: rounding again changes no bit.
  const Graph graph = compressor.convert();
  const std::map<std::string, torch::Tensor> values =
      test::record_values(*model, graph, {test::make_batch(8, 2, 16, 4).samples});
  for (const auto& [name, q] : test::rounded_values(graph))
    EXPECT_TRUE(test::same_bits(fake_quantize(values.at(name), q), values.at(name))) << name;
  model->clear_hooks();  // the next step puts the quantizers' back

  model->train();
  train(50, [&] {
    for (const Step& step : model->steps())
      if (model->graph().nodes[step.node].name == "classifier") model->set_parameter_hook(step.output, {});
  });
  const std::string error = test::refusal_of([&] { (void)compressor.convert(); });
  EXPECT_NE(error.find("classifier"), std::string::npos) << error;
  EXPECT_EQ(error.find("conv0"), std::string::npos) << error;
}

// pytorch #33648, #38081, #85627; NNCF #431: ranges and flags of replicas that train side by side differ. A copy has no
// quantizers and shares no range, so whatever trains in the network's place, conversion refuses what comes of it.
TEST(Replicas, ThatTrainedInTheNetworksPlaceAreNoticed) {
  torch::manual_seed(4);
  const auto model = test::small_classifier();
  torch::optim::SGD optimizer(model->parameters(), 0.01);
  Compressor compressor(model, {.epochs = {.quantize = 1}, .quantize = QuantizeRecipe{}});
  compressor.attach(optimizer, {.steps_per_epoch = 2});
  model->train();
  test::train_step(*model, optimizer, test::make_batch(8, 2, 16, 4));
  compressor.step();
  EXPECT_NO_THROW((void)compressor.convert());

  const auto replica = std::dynamic_pointer_cast<GraphModule>(model->clone());
  const test::Batch batch = test::make_batch(8, 2, 16, 4);
  torch::nn::functional::cross_entropy(replica->forward(batch.samples), batch.labels).backward();
  for (const auto& item : model->named_parameters())
    torch::Tensor(item.value()).mutable_grad() = replica->tensor(item.key()).grad();
  optimizer.step();
  compressor.step();
  test::expect_names(test::refusal_of([&] { (void)compressor.convert(); }),
                     {"without their quantizers", "conv0", "conv1", "classifier"});
}

// C17: TinyNeuralNetwork #375, an observer that never saw data yields an absurd scale without complaint.
TEST(Case17, WhatNoDataReachedIsRefusedByName) {
  const auto model = test::small_classifier();
  Compressor empty(model, {.quantize = QuantizeRecipe{}});
  const std::string no_loader = test::refusal_of([&] { empty.calibrate(std::vector<torch::Tensor>()); });
  EXPECT_NE(no_loader.find("no data observed"), std::string::npos) << no_loader;
  const std::string uncalibrated = test::refusal_of([&] { (void)empty.convert(); });
  EXPECT_NE(uncalibrated.find("'input'"), std::string::npos) << uncalibrated;
  EXPECT_NE(uncalibrated.find("no data observed"), std::string::npos) << uncalibrated;

  test::NetworkBuilder net;
  const ValueId a = net.input("a", {4});
  const ValueId b = net.input("b", {4});
  const auto two = net.build({net.linear(a, "first", 2), net.linear(b, "second", 2)});
  Compressor branch(two, {.quantize = QuantizeRecipe{}});
  const torch::Tensor nothing = torch::full({3, 4}, std::numeric_limits<float>::quiet_NaN());
  branch.calibrate(std::vector<CalibrationBatch>{{torch::randn({3, 4}), nothing}});
  const std::string error = test::refusal_of([&] { (void)branch.convert(); });
  EXPECT_NE(error.find("'b'"), std::string::npos) << error;
  EXPECT_NE(error.find("no data observed"), std::string::npos) << error;
}

// C19: microsoft/nni #3204, the range was taken from the current batch instead of the tracked average.
TEST(Case19, ASpikeMovesTheTrackedAverageByItsShareOnly) {
  torch::manual_seed(5);
  const auto model = test::small_classifier();
  torch::optim::SGD optimizer(model->parameters(), 1e-9);
  Compressor compressor(model, {.epochs = {.quantize = 1},
                                .quantize = QuantizeRecipe{.observer = EmaObserver{.averaging_constant = 0.01}}});
  compressor.attach(optimizer, {.steps_per_epoch = 101});
  model->train();
  double loss = 0;
  for (int step = 0; step < 101; ++step) {
    torch::Tensor samples = torch::rand({8, 2, 16});
    samples[0][0][0] = 0.0;
    samples[0][0][1] = step == 99 ? 10000.0 : 1.0;
    optimizer.zero_grad();
    const torch::Tensor out = model->forward(samples).square().mean();
    out.backward();
    loss = out.item<double>();
    optimizer.step();
    compressor.step();
    if (step == 99) {
      EXPECT_NEAR(value_named(compressor.convert(), "input.codes").qparams.value().scale, 0.39604, 1e-5);
    }
  }
  EXPECT_TRUE(std::isfinite(loss));
}

// C20: lsq-net #17, LSQplus #12, ppq #518, a learned step crosses zero.
TEST(Case20, LearnedStepsStayPositiveUnderAnyLearningRateAndFilesWithOtherScalesAreRefused) {
  for (const std::string kind : {"SGD", "Adam"}) {
    torch::manual_seed(6);
    const auto model = test::small_classifier();
    model->tensor("conv1.weight").detach().zero_();
    std::unique_ptr<torch::optim::Optimizer> optimizer;
    if (kind == "SGD") optimizer = std::make_unique<torch::optim::SGD>(model->parameters(), 0.01);
    if (kind == "Adam") optimizer = std::make_unique<torch::optim::Adam>(model->parameters(), 0.001);
    Compressor compressor(model, {.epochs = {.quantize = 1},
                                  .quantize = QuantizeRecipe{.weight_scale = WeightScale::learned,
                                                             .activation_scale = ActivationScale::learned,
                                                             .step_learning_rate = 10}});
    compressor.attach(*optimizer, {.steps_per_epoch = 100});
    model->train();
    for (int step = 0; step < 100; ++step) {
      const test::Batch batch = test::make_batch(16, 2, 16, 4);
      optimizer->zero_grad();
      const torch::Tensor loss = torch::nn::functional::cross_entropy(model->forward(batch.samples), batch.labels);
      loss.backward();
      optimizer->step();
      compressor.step();
      ASSERT_TRUE(std::isfinite(loss.item<double>())) << kind << " " << step;
    }
    for (const auto& item : model->named_parameters()) EXPECT_TRUE(item.value().isfinite().all().item<bool>());
    EXPECT_NO_THROW((void)Model(compressor.convert())) << "every scale is valid: " << kind;
  }

  torch::manual_seed(7);
  const auto model = test::small_classifier();
  Compressor compressor(model, {.quantize = QuantizeRecipe{}});
  compressor.calibrate(std::vector<torch::Tensor>{torch::randn({8, 2, 16})});
  const Graph graph = compressor.convert();
  for (const float scale :
       {0.0F, -1.0F, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Graph patched = graph;
    for (Value& value : patched.values)
      if (value.qparams) value.qparams->scale = scale;
    EXPECT_THROW((void)Model(patched), Error) << scale;
    patched = graph;
    patched.tensors.at("conv1.weight").scales[0] = scale;
    EXPECT_THROW((void)Model(patched), Error) << scale;
  }
}

}  // namespace
}  // namespace podaq
