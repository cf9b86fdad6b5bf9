// What becomes of a network once it is pruned: copies of it, later runs on it, and sparsities that prune nothing.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <sstream>
#include <string>

#include "compress/agreement.h"
#include "compress/conversion.h"
#include "compress/network_builder.h"
#include "compress/refusals.h"
#include "compress/training_run.h"
#include "podaq/compress/compressor.h"
#include "podaq/format/file.h"
#include "podaq/prune/masks.h"
#include "support/temporary_folder.h"

namespace podaq {
namespace {

using test::TrainingRun;

std::shared_ptr<GraphModule> copy_of(const GraphModule& model) {
  return std::dynamic_pointer_cast<GraphModule>(model.clone());
}

void expect_same_weights_of_its_own(const GraphModule& copy, const GraphModule& original) {
  for (const auto& item : original.named_parameters()) {
    const torch::Tensor tensor = copy.tensor(item.key());
    EXPECT_TRUE(test::same_bits(tensor, item.value())) << item.key();
    EXPECT_NE(tensor.const_data_ptr(), item.value().const_data_ptr()) << item.key();
    EXPECT_TRUE(tensor.is_leaf() && tensor.requires_grad()) << item.key();
  }
}

// pytorch #37322: deepcopy of a pruned module throws.
TEST(PrunedNetwork, IsCopiedWithItsZerosInTheMiddleOfQuantizationAndTheCopyTrainsOn) {
  constexpr std::int64_t steps = 30;
  constexpr std::int64_t stop = 17;
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "checkpoint";
  TrainingRun run(31, "Adam", 0.01, 1e-2);
  run.train(stop);
  run.compressor->save_checkpoint(path);
  const auto copy = copy_of(*run.model);
  expect_same_weights_of_its_own(*copy, *run.model);
  EXPECT_EQ((copy->tensor("conv1.weight") == 0).sum().item<std::int64_t>(), 144);
  run.train(steps - stop);
  const std::vector<std::byte> expected = encode(run.compressor->convert());
  EXPECT_FALSE(test::same_bits(copy->tensor("conv1.weight"), run.model->tensor("conv1.weight")));

  TrainingRun copied(99, "Adam", 0.7, 0.5, test::full_recipe(), copy);
  copied.resume(path, stop);
  copied.train(steps - stop);
  EXPECT_EQ(encode(copied.compressor->convert()), expected);
}

TEST(PrunedNetwork, IsCopiedWithoutTheChannelsThatItLost) {
  const Recipe recipe{.epochs = {.prune = 1, .recover = 1},
                      .prune = PruneRecipe{.sparsity = 0.5, .pattern = ChannelPattern{}}};
  TrainingRun run(31, "SGD", 0.01, 1e-2, recipe);
  run.train(7);
  const auto copy = copy_of(*run.model);
  EXPECT_EQ(copy->tensor("conv0.weight").size(0), 4);
  expect_same_weights_of_its_own(*copy, *run.model);
  copy->eval();
  run.model->eval();
  EXPECT_TRUE(copy->forward(run.data.samples).equal(run.model->forward(run.data.samples)));
  copy->train();
  torch::optim::SGD optimizer(copy->parameters(), 0.1);
  test::train_step(*copy, optimizer, run.data);
  for (const auto& item : copy->named_parameters())
    EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
}

// PaddleDetection #3566 (quantization-aware training of a pruned model), nni #4422 (masks cannot be loaded for
// training): where only the weights of an earlier run are left, a recipe without a prune stage finds its zeros again.
TEST(PrunedNetwork, KeepsTheZerosOfAnEarlierRunWhereANewRecipeQuantizesIt) {
  const double sparsity = 0.75;
  TrainingRun earlier(31, "Adam", 0.01, 1e-2,
                      {.epochs = {.prune = 1, .recover = 1}, .prune = PruneRecipe{.sparsity = sparsity}});
  earlier.train(10);
  std::stringstream stream;
  torch::save(std::dynamic_pointer_cast<torch::nn::Module>(earlier.model), stream);

  const auto model = test::small_classifier(2, 16, 4, 99);
  auto module = std::dynamic_pointer_cast<torch::nn::Module>(model);
  torch::load(module, stream);
  TrainingRun later(99, "Adam", 0.01, 1e-2,
                    {.epochs = {.quantize = 2, .freeze_observers = 1},
                     .prune = PruneRecipe{.sparsity = sparsity},
                     .quantize = QuantizeRecipe{.weight_bits = 4}},
                    model);
  Masks zeros;
  for (const WeightedLayer& layer : weighted_layers(earlier.model->graph()))
    zeros[layer.weight] = earlier.model->tensor(layer.weight) == 0;
  for (int step = 0; step < 15; ++step) {
    later.train(1);
    for (const auto& [name, mask] : zeros) EXPECT_TRUE((model->tensor(name) == 0).equal(mask)) << name << ' ' << step;
  }
  EXPECT_EQ(count_pruned(zeros.at("conv1.weight")), 144);
  test::expect_agreement(model, *later.compressor);
}

// Layers of 100, 1 and 3 weights.
std::shared_ptr<GraphModule> network_of_uneven_layers() {
  test::NetworkBuilder net;
  ValueId x = net.linear(net.input("input", {100}), "hundred", 1, false);
  x = net.linear(x, "one", 1, false);
  return net.build({net.linear(x, "three", 3, false)});
}

std::vector<LayerReport> pruned_report(double sparsity, Distribution distribution) {
  const auto model = network_of_uneven_layers();
  torch::optim::SGD optimizer(model->parameters(), 0.01);
  Compressor compressor(
      model, {.epochs = {.prune = 1}, .prune = PruneRecipe{.sparsity = sparsity, .distribution = distribution}});
  compressor.attach(optimizer, {.steps_per_epoch = 2});
  compressor.step();
  compressor.step();
  return compressor.report().layers;
}

// C25: Torch-Pruning #204, a low sparsity leaves nothing to prune and the empty list crashes.
TEST(SparsityOverUnevenLayers, PrunesNothingWhereItIsTooLowAndNamesTheNearestWhereItIsTooHigh) {
  for (const Distribution distribution : {Distribution::uniform, Distribution::global, Distribution::erk}) {
    for (const double sparsity : {0.0, 1e-9, 0.001}) {
      const std::vector<LayerReport> layers = pruned_report(sparsity, distribution);
      ASSERT_EQ(layers.size(), 3U);
      EXPECT_EQ(layers[0].weights, 100);
      for (const LayerReport& layer : layers) EXPECT_EQ(layer.zeros + layer.masked, 0) << layer.layer << sparsity;
    }
    test::expect_names(
        test::refusal_of(ErrorCode::recipe, [&] { static_cast<void>(pruned_report(1.0, distribution)); }),
        {"prune.sparsity", "0.97115", "101 of 104"});
  }
  for (const LayerReport& layer : pruned_report(0.97, Distribution::global))
    EXPECT_EQ(layer.zeros, layer.weights - 1) << layer.layer;
}

}  // namespace
}  // namespace podaq
