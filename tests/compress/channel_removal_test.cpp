#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <filesystem>

#include "compress/agreement.h"
#include "compress/tampering.h"
#include "compress/training_loop.h"
#include "compress/training_run.h"
#include "podaq/core/error.h"
#include "prune/channel_networks.h"
#include "support/temporary_folder.h"

namespace podaq {
namespace {

Recipe removing_recipe(bool quantizes) {
  Recipe recipe{.epochs = {.prune = 1, .recover = 1},
                .prune = PruneRecipe{.sparsity = 0.5, .pattern = ChannelPattern{}}};
  if (!quantizes) return recipe;
  recipe.epochs.quantize = 1;
  recipe.epochs.freeze_batch_norm = 1;
  recipe.epochs.freeze_observers = 1;
  recipe.quantize = QuantizeRecipe{.weight_scale = WeightScale::learned, .activation_scale = ActivationScale::learned};
  return recipe;
}

std::int64_t count_weights(const Compressor& compressor) {
  std::int64_t weights = 0;
  for (const LayerReport& layer : compressor.report().layers) weights += layer.weights;
  return weights;
}

class RemovingRecipe : public testing::TestWithParam<int> {};

TEST_P(RemovingRecipe, GivesASmallerNetworkThatConvertsToWhatItComputes) {
  for (const bool quantizes : {false, true}) {
    const auto model = test::channel_network(static_cast<std::uint64_t>(GetParam()));
    const std::int64_t parameters_before = static_cast<std::int64_t>(model->parameters().size());
    torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-3));
    Compressor compressor(model, removing_recipe(quantizes));
    compressor.attach(optimizer, {.steps_per_epoch = 3});
    const std::int64_t before = count_weights(compressor);
    torch::manual_seed(5);
    test::run_recipe(*model, optimizer, compressor, 3, [] { return test::make_batch(16, 3, 12, 4); });
    EXPECT_LT(count_weights(compressor), before);
    EXPECT_EQ(static_cast<std::int64_t>(model->parameters().size()), parameters_before);
    for (const torch::Tensor& parameter : model->parameters()) {
      EXPECT_TRUE(std::ranges::any_of(optimizer.param_groups()[0].params(),
                                      [&](const torch::Tensor& other) { return other.is_same(parameter); }));
    }
    const Graph graph = compressor.convert();
    model->eval();
    const torch::NoGradGuard no_grad;
    const torch::Tensor samples = test::make_batch(8, 3, 12, 4).samples;
    const torch::Tensor expected = model->forward(samples);
    const torch::Tensor got = test::run_graph(graph, {samples}).at(0);
    const double tolerance = quantizes ? 0.1 * expected.abs().max().item<double>() : 1e-4;
    EXPECT_LE((got - expected).abs().max().item<double>(), tolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, RemovingRecipe, testing::Range(0, 8));

TEST(RemovedChannelsInACheckpoint, ThatDoNotFitAreRefusedAndChangeNothing) {
  const Recipe recipe = removing_recipe(true);
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "checkpoint";
  test::TrainingRun written(31, "SGD", 0.02, 1e-2, recipe);
  written.train(8);
  const auto check = [&](const std::string& attribute, const c10::IValue& value) {
    written.compressor->save_checkpoint(path);
    test::tamper(path, [&](torch::jit::Module& archive) { archive.setattr(attribute, value); });
    test::TrainingRun run(32, "SGD", 0.02, 1e-2, recipe);
    run.train(1);
    const torch::Tensor before = run.model->tensor("conv1.weight").detach().clone();
    EXPECT_THROW(run.compressor->load_checkpoint(path), Error) << attribute;
    EXPECT_TRUE(test::same_bits(run.model->tensor("conv1.weight"), before));
    run.train(3);
  };
  written.compressor->save_checkpoint(path);
  const torch::Tensor removed = torch::jit::load(path.string()).attr("removed_channels").toTensor();
  ASSERT_GT(removed.sum().item<std::int64_t>(), 0);
  check("removed_channels", removed.slice(0, 1));
  check("removed_channels", torch::ones_like(removed));
  check("removed_channels", torch::zeros_like(removed));
  check("removed_channels", removed.to(torch::kFloat));
  check("has_removed_channels", false);
}

TEST(RemovedChannelsInACheckpoint, OfAnEarlierTimeDoNotFitANetworkThatHasLostThem) {
  const Recipe recipe = removing_recipe(false);
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "checkpoint";
  test::TrainingRun run(31, "SGD", 0.02, 1e-2, recipe);
  run.train(3);
  run.compressor->save_checkpoint(path);
  run.train(4);
  EXPECT_THROW(run.compressor->load_checkpoint(path), Error);
}

TEST(RemovingChannels, RefusesAnOptimizerWhoseStateItCannotCut) {
  const auto model = test::channel_network(1);
  torch::optim::LBFGS optimizer(model->parameters());
  Compressor compressor(model, removing_recipe(false));
  EXPECT_THROW(compressor.attach(optimizer, {.steps_per_epoch = 3}), Error);
}

}  // namespace
}  // namespace podaq
