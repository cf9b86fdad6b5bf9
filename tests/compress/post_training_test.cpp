#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <vector>

#include "compress/conversion.h"
#include "compress/network_builder.h"
#include "compress/training_loop.h"
#include "podaq/compress/compressor.h"
#include "podaq/core/error.h"
#include "podaq/format/file.h"
#include "support/temporary_folder.h"

namespace podaq {
namespace {

// A network that has learned to tell tones apart.
std::shared_ptr<GraphModule> trained(const Recipe& recipe = {.epochs = {.dense = 1}}) {
  torch::manual_seed(1);
  const auto model = test::small_classifier();
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  Compressor compressor(model, recipe);
  compressor.attach(optimizer, {.steps_per_epoch = 60});
  test::run_recipe(*model, optimizer, compressor, 60, [] { return test::make_batch(32, 2, 16, 4); });
  model->eval();
  return model;
}

std::vector<torch::Tensor> calibration_data() {
  torch::manual_seed(2);
  std::vector<torch::Tensor> batches;
  for (int i = 0; i < 6; ++i) batches.push_back(test::make_batch(32, 2, 16, 4).samples);
  return batches;
}

double accuracy(const Graph& graph) {
  torch::manual_seed(3);
  const test::Batch batch = test::make_batch(500, 2, 16, 4);
  double right = 0;
  for (std::int64_t i = 0; i < 500; i += 50) {
    const torch::Tensor logits = test::run_graph(graph, {batch.samples.slice(0, i, i + 50)}).at(0);
    right += logits.argmax(1).eq(batch.labels.slice(0, i, i + 50)).sum().item<double>();
  }
  return right / 500;
}

TEST(PostTraining, QuantizesInFourLinesWithoutAnOptimizer) {
  const auto model = trained();
  const double before = accuracy(Compressor(model, {.epochs = {.dense = 1}}).convert());
  Compressor compressor(model, Recipe::parse("[quantize]\nobserver = \"min_max\"\n"));
  compressor.calibrate(calibration_data());
  const Graph graph = compressor.convert();
  EXPECT_GT(before, 0.7);
  EXPECT_NEAR(accuracy(graph), before, 0.02);
  test::expect_agreement(model, compressor);
  EXPECT_EQ(encode(decode(encode(graph))), encode(graph));
}

class PostTrainingOptions : public testing::TestWithParam<PostTrainingRecipe> {};

TEST_P(PostTrainingOptions, ConvertToWhatTheNetworkComputes) {
  const auto model = trained();
  const double before = accuracy(Compressor(model, {.epochs = {.dense = 1}}).convert());
  Compressor compressor(
      model,
      {.quantize = QuantizeRecipe{.weight_bits = 4, .observer = LeastSquaresObserver{}, .post_training = GetParam()}});
  compressor.calibrate(calibration_data());
  test::expect_agreement(model, compressor);
  EXPECT_GT(accuracy(compressor.convert()), before - 0.1);
}

INSTANTIATE_TEST_SUITE_P(All, PostTrainingOptions,
                         testing::Values(PostTrainingRecipe{}, PostTrainingRecipe{.equalize_layers = true},
                                         PostTrainingRecipe{.adaptive_rounding = true, .rounding = {.iterations = 100}},
                                         PostTrainingRecipe{.bias_correction = true},
                                         PostTrainingRecipe{.equalize_layers = true,
                                                            .adaptive_rounding = true,
                                                            .bias_correction = true,
                                                            .rounding = {.iterations = 100}}));

TEST(PostTraining, KeepsPrunedWeightsAtZeroWhateverItDoes) {
  const Recipe recipe{.epochs = {.prune = 1},
                      .prune = PruneRecipe{.sparsity = 0.75},
                      .quantize = QuantizeRecipe{.weight_bits = 4,
                                                 .post_training = PostTrainingRecipe{.equalize_layers = true,
                                                                                     .adaptive_rounding = true,
                                                                                     .bias_correction = true,
                                                                                     .rounding = {.iterations = 60}}}};
  torch::manual_seed(4);
  const auto model = test::small_classifier();
  torch::optim::Adam optimizer(model->parameters(), 0.01);
  Compressor compressor(model, recipe);
  compressor.attach(optimizer, {.steps_per_epoch = 20});
  test::run_recipe(*model, optimizer, compressor, 20, [] { return test::make_batch(32, 2, 16, 4); });
  const torch::Tensor zeros = model->tensor("conv1.weight") == 0;
  EXPECT_EQ(zeros.sum().item<std::int64_t>(), 144);
  compressor.calibrate(calibration_data());
  EXPECT_TRUE(model->tensor("conv1.weight").masked_select(zeros).eq(0).all().item<bool>());
  const Graph graph = compressor.convert(test::with_all_channels);
  const auto codes = elements<std::int8_t>(graph.tensors.at("conv1.weight"));
  EXPECT_GE(std::count(codes.begin(), codes.end(), std::int8_t{0}), 144);
}

TEST(PostTraining, ReportNamesTheLayersThatHaveNoBiasToCorrect) {
  test::NetworkBuilder net;
  const ValueId x = net.conv(net.input("input", {2, 16}), "bare", 4, 3, false);
  const auto model = net.build({net.linear(net.apply(GlobalMean{}, "mean", {net.relu(x, "relu")}), "head", 3)});
  const std::vector<torch::Tensor> batches = {torch::randn({8, 2, 16})};
  for (const bool corrects : {true, false}) {
    model->clear_hooks();
    Compressor compressor(
        model, {.quantize = QuantizeRecipe{.post_training = PostTrainingRecipe{.bias_correction = corrects}}});
    compressor.calibrate(batches);
    const CompressionReport report = compressor.report();
    EXPECT_EQ(report.without_bias, corrects ? std::vector<std::string>{"bare"} : std::vector<std::string>{});
    EXPECT_EQ(to_text(report).find("'bare' has no bias") != std::string::npos, corrects);
  }
}

TEST(PostTraining, LetsTrainingGoOnFromThere) {
  const auto model = trained();
  const Recipe recipe{.epochs = {.quantize = 1, .freeze_batch_norm = 1, .freeze_observers = 1},
                      .quantize = QuantizeRecipe{.weight_bits = 4, .activation_scale = ActivationScale::learned}};
  torch::optim::SGD optimizer(model->parameters(), 0.01);
  Compressor compressor(model, recipe);
  compressor.calibrate(calibration_data());
  const double calibrated = accuracy(compressor.convert());
  compressor.attach(optimizer, {.steps_per_epoch = 20});

  const test::TemporaryFolder folder;
  const auto train = [](GraphModule& network, torch::optim::Optimizer& own, Compressor& run) {
    torch::manual_seed(5);
    test::run_recipe(network, own, run, 20, [] { return test::make_batch(32, 2, 16, 4); });
    return run.convert();
  };
  compressor.save_checkpoint(folder.path() / "calibrated");
  const Graph graph = train(*model, optimizer, compressor);
  test::expect_agreement(model, compressor);
  EXPECT_GT(accuracy(graph), calibrated - 0.05);

  const auto other = test::small_classifier(2, 16, 4, 77);
  torch::optim::SGD other_optimizer(other->parameters(), 0.5);
  Compressor resumed(other, recipe);
  resumed.attach(other_optimizer, {.steps_per_epoch = 20});
  resumed.load_checkpoint(folder.path() / "calibrated");
  EXPECT_EQ(encode(train(*other, other_optimizer, resumed)), encode(graph));
}

TEST(PostTraining, RefusesWhatMakesNoSense) {
  const auto model = test::small_classifier();
  Compressor dense(model, {.epochs = {.dense = 1}});
  EXPECT_THROW(dense.calibrate(calibration_data()), Error);
  Compressor only_calibrates(model, {.quantize = QuantizeRecipe{}});
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  EXPECT_THROW(only_calibrates.attach(optimizer, {.steps_per_epoch = 5}), Error);
  EXPECT_THROW(Compressor(model, {.quantize = QuantizeRecipe{.post_training =
                                                                 PostTrainingRecipe{.rounding = {.iterations = 0}}}}),
               Error);
}

}  // namespace
}  // namespace podaq
