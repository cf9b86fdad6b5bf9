#include "podaq/compress/resolve_auto.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "compress/auto_support.h"
#include "podaq/compress/compressor.h"
#include "podaq/format/file.h"
#include "runtime/avx512.h"

namespace podaq::test {
namespace {

Recipe auto_recipe(std::int64_t budget_bytes) {
  return {.epochs = {.prune = 1, .recover = 1, .quantize = 1, .freeze_batch_norm = 1, .freeze_observers = 1},
          .prune = PruneRecipe{},
          .quantize = QuantizeRecipe{},
          .automatic = AutoRecipe{.budget_bytes = budget_bytes}};
}

AutoResolution resolve(const GraphModule& model, const Recipe& recipe) {
  return resolve_auto(recipe, model, cross_entropy_on(validation_batch()), quiet());
}

// The least cost that a recipe's candidates reach, from the text that refuses a budget below.
double least_cost(const GraphModule& model, Recipe recipe, const ValidationFunction& validation) {
  AutoRecipe& search = recipe.automatic.value();
  const std::string field = search.budget_us ? "auto.budget_us" : "auto.budget_bytes";
  if (search.budget_us)
    search.budget_us = 1e-3;
  else
    search.budget_bytes = 1;
  const std::string refusal =
      refusal_of(ErrorCode::recipe, [&] { (void)resolve_auto(recipe, model, validation, quiet()); });
  const std::string before = "the least that the candidates reach is ";
  const std::size_t at = refusal.find(before);
  EXPECT_NE(refusal.find(field), std::string::npos) << refusal;
  EXPECT_NE(at, std::string::npos) << refusal;
  return at == std::string::npos ? 0.0 : std::stod(refusal.substr(at + before.size()));
}

std::int64_t least_bytes(const GraphModule& model, const Recipe& recipe = auto_recipe(1)) {
  return std::llround(least_cost(model, recipe, cross_entropy_on(validation_batch())));
}

TEST(ResolveAuto, GivesAnOrdinaryRecipeThatSaysWhatWasChosen) {
  const auto model = trained_classifier();
  Recipe searched = auto_recipe(1);
  searched.automatic->sparsities = {0.5, 0.9};
  searched.automatic->budget_bytes = least_bytes(*model, searched) + 60;
  const AutoResolution resolution = resolve(*model, searched);
  const Recipe& recipe = resolution.recipe;
  EXPECT_FALSE(recipe.automatic.has_value());
  EXPECT_NO_THROW(validate(recipe));
  EXPECT_EQ(to_toml(Recipe::parse(to_toml(recipe))), to_toml(recipe));
  ASSERT_EQ(resolution.chosen.size(), 3U);
  ASSERT_EQ(recipe.prune->by_layer.size(), 3U);
  ASSERT_EQ(recipe.quantize->weight_bits_by_layer.size(), 3U);
  double rise = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const LayerSensitivity& layer = resolution.sensitivity.layers[i];
    const CandidateEffect& effect = layer.candidates.at(resolution.chosen[i]);
    EXPECT_EQ(recipe.prune->by_layer[i].layers, layer.layer);
    EXPECT_EQ(recipe.prune->by_layer[i].sparsity, effect.candidate.sparsity);
    EXPECT_EQ(recipe.quantize->weight_bits_by_layer[i].names, layer.layer);
    EXPECT_EQ(recipe.quantize->weight_bits_by_layer[i].bits, effect.candidate.weight_bits);
    rise += effect.loss_rise;
  }
  EXPECT_DOUBLE_EQ(resolution.loss_rise, rise);
  const std::string text = to_text(resolution);
  for (const std::string word : {"conv0", "conv1", "classifier", "sparsity", "bits", "bytes", "loss rise"})
    EXPECT_NE(text.find(word), std::string::npos) << text;
}

TEST(ResolveAuto, ACompressorTakesTheResolvedRecipeOnly) {
  const auto model = trained_classifier();
  const Recipe recipe = auto_recipe(4000);
  const std::string refusal = refusal_of(ErrorCode::recipe, [&] { const Compressor compressor(model, recipe); });
  EXPECT_NE(refusal.find("resolve_auto"), std::string::npos) << refusal;
  const Compressor compressor(model, resolve(*model, recipe).recipe);
  EXPECT_EQ(compressor.epochs(), 5);
}

TEST(ResolveAuto, MeetsTheBudgetAndABiggerOneLosesNoMore) {
  const auto model = trained_classifier();
  const std::int64_t least = least_bytes(*model);
  double last = std::numeric_limits<double>::infinity();
  for (const std::int64_t more : {0, 60, 150, 400, 100'000}) {
    const AutoResolution resolution = resolve(*model, auto_recipe(least + more));
    EXPECT_LE(resolution.cost, static_cast<double>(least + more));
    EXPECT_LE(resolution.loss_rise, last) << more;
    last = resolution.loss_rise;
  }
  EXPECT_NEAR(last, 0.0, 0.05) << "with room for everything next to nothing is lost";
}

TEST(ResolveAuto, ALatencyBudgetIsMetByTheWholeNetworksEstimate) {
  if (!has_avx512() || selected_isa() < Isa::avx512) GTEST_SKIP() << "needs AVX-512 with VNNI";
  torch::manual_seed(5);
  NetworkBuilder net;
  ValueId x = net.input("input", {2, 256});
  for (const std::string name : {"conv0", "conv1", "conv2"})
    x = net.relu(net.conv(x, name, 64, 3), "relu" + name.substr(4));
  const auto model = net.build({net.linear(net.apply(GlobalMean{}, "mean", {x}), "classifier", 4)});
  const ValidationFunction validation = cross_entropy_on({torch::randn({8, 2, 256}), torch::arange(8) % 4});
  Recipe recipe = auto_recipe(1);
  recipe.automatic = AutoRecipe{.budget_us = 1e6, .weight_bits = {8}};
  const AutoResolution loose = resolve_auto(recipe, *model, validation, quiet());
  for (const LayerSensitivity& layer : loose.sensitivity.layers) {
    EXPECT_GT(layer.candidates[0].us.value_or(0), 0.0);
    EXPECT_TRUE(layer.layer != "conv1" || *layer.candidates.back().us < *layer.candidates[0].us);
  }
  const double least = least_cost(*model, recipe, validation);
  ASSERT_LT(least, loose.cost);
  recipe.automatic->budget_us = 0.5 * (least + loose.cost);
  const AutoResolution tight = resolve_auto(recipe, *model, validation, quiet());
  EXPECT_LE(tight.cost, *recipe.automatic->budget_us);
  EXPECT_GE(tight.loss_rise, loose.loss_rise);
}

TEST(ResolveAuto, KeepsExceptionsAndLeavesOutWhatIsNotPruned) {
  const auto model = trained_classifier();
  Recipe recipe = auto_recipe(100'000);
  recipe.prune->by_layer = {{.layers = "conv0", .sparsity = 0.25}};
  recipe.automatic->sparsities = {0.0};
  const Recipe some = resolve(*model, recipe).recipe;
  ASSERT_TRUE(some.prune.has_value());
  EXPECT_EQ(some.prune->by_layer[0].sparsity, 0.25);
  recipe.prune->by_layer.clear();
  const Recipe none = resolve(*model, recipe).recipe;
  EXPECT_FALSE(none.prune.has_value());
  EXPECT_EQ(none.epochs.dense, 2.0) << "the prune and recover stages";
  EXPECT_EQ(whole_epochs(none), whole_epochs(recipe));
  EXPECT_NO_THROW(Compressor(model, none));
}

TEST(ResolveAuto, RefusesARecipeWithoutAnythingToSearch) {
  const auto model = trained_classifier();
  Recipe recipe = auto_recipe(4000);
  recipe.automatic.reset();
  EXPECT_NE(refusal_of(ErrorCode::recipe, [&] { (void)resolve(*model, recipe); }).find("auto"), std::string::npos);
  recipe = auto_recipe(4000);
  recipe.prune->by_layer = {{.layers = "*", .sparsity = 0.5}};
  recipe.quantize->weight_bits_by_layer = {{.names = "*", .bits = 8}};
  EXPECT_NE(refusal_of(ErrorCode::recipe, [&] { (void)resolve(*model, recipe); }).find("nothing to search"),
            std::string::npos);
}

TEST(ResolveAuto, NamesALayerThatEveryCandidateBreaks) {
  const auto model = trained_classifier();
  const torch::Tensor dense = model->tensor("conv1.weight").detach().clone();
  Recipe recipe = auto_recipe(100'000);
  recipe.quantize.reset();
  recipe.epochs = {.prune = 1};
  recipe.automatic->sparsities = {0.5, 0.9};
  const std::string refusal = refusal_of(ErrorCode::invalid_argument, [&] {
    (void)resolve_auto(
        recipe, *model,
        [&](GraphModule& network) { return network.tensor("conv1.weight").equal(dense) ? 1.0 : std::nan(""); },
        quiet());
  });
  EXPECT_NE(refusal.find("'conv1'"), std::string::npos) << refusal;
}

// ---- end to end -----------------------------------------------------------------------------------------------------

// A first layer that everything depends on, and behind it a wide linear layer with room to spare.
std::shared_ptr<GraphModule> uneven_network() {
  NetworkBuilder net(2);
  ValueId x = net.input("input", {2, 32});
  x = net.relu(net.batch_norm(net.conv(x, "narrow", 6, 5, false), "norm"), "relu0");
  x = net.apply(Reshape{.shape = {6 * 32}}, "flatten", {x});
  x = net.relu(net.linear(x, "wide", 96), "relu1");
  return net.build({net.linear(x, "classifier", 6)});
}

Batch uneven_batch(std::int64_t count) {
  return make_batch(count, 2, 32, 6);
}

constexpr std::int64_t steps = 25;

struct Compressed {
  double bytes = 0;
  double loss = 0;
};

// Trains the dense network's copy by the recipe; the file's size, and the loss of what it computes.
Compressed compress(const GraphModule& dense, const Recipe& recipe, const Batch& validation) {
  torch::manual_seed(31);
  const auto model = std::dynamic_pointer_cast<GraphModule>(dense.clone());
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  Compressor compressor(model, recipe);
  compressor.attach(optimizer, {.steps_per_epoch = steps});
  run_recipe(*model, optimizer, compressor, steps, [] { return uneven_batch(32); });
  model->eval();
  return {.bytes = static_cast<double>(encode(compressor.convert()).size()),
          .loss = cross_entropy_on(validation)(*model)};
}

class ResolveAutoEndToEnd : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    torch::manual_seed(30);
    dense_ = uneven_network();
    torch::optim::Adam optimizer(dense_->parameters(), 0.005);
    dense_->train();
    for (int step = 0; step < 150; ++step) train_step(*dense_, optimizer, uneven_batch(32));
    dense_->eval();
    validation_ = uneven_batch(256);
  }

  static void TearDownTestSuite() { dense_.reset(); }

  static std::shared_ptr<GraphModule> dense_;
  static Batch validation_;
};

std::shared_ptr<GraphModule> ResolveAutoEndToEnd::dense_;
Batch ResolveAutoEndToEnd::validation_;

// Names and shapes take the same in both files, so that the difference is what the estimates speak of.
TEST_F(ResolveAutoEndToEnd, LayersEstimatesDifferAsFilesDoWithinTenPercent) {
  struct Sizes {
    double file = 0;
    double layers = 0;
  };
  const auto sizes_at = [&](double sparsity, int bits) {
    Recipe recipe = auto_recipe(1'000'000);
    recipe.automatic->sparsities = {sparsity};
    recipe.automatic->weight_bits = {bits};
    const AutoResolution resolution = resolve_auto(recipe, *dense_, cross_entropy_on(validation_), quiet());
    Sizes sizes{.file = resolution.cost};
    for (const LayerSensitivity& layer : resolution.sensitivity.layers) sizes.layers += layer.candidates.at(0).bytes;
    return sizes;
  };
  const Sizes small = sizes_at(0.95, 3);
  EXPECT_LT(small.layers, small.file);
  for (const auto& [sparsity, bits] : {std::pair(0.0, 8), std::pair(0.5, 6), std::pair(0.8, 4)}) {
    const Sizes large = sizes_at(sparsity, bits);
    EXPECT_NEAR(large.layers - small.layers, large.file - small.file, 0.1 * (large.file - small.file))
        << "sparsity " << sparsity << ", " << bits << " bits";
  }
}

TEST_F(ResolveAutoEndToEnd, ATrainedFileMeetsTheBudgetAndLosesNoMoreThanUniformAtAsManyBytes) {
  constexpr std::int64_t budget = 4000;
  const AutoResolution resolution = resolve_auto(auto_recipe(budget), *dense_, cross_entropy_on(validation_), quiet());
  EXPECT_LE(resolution.cost, budget);
  const Compressed by_layer = compress(*dense_, resolution.recipe, validation_);
  EXPECT_LE(by_layer.bytes, 1.05 * budget) << "training moves weights by that much";

  // The sparsest uniform recipe, to 1 %, whose file is no smaller.
  Compressed uniform;
  double enough = 0.5;
  double too_much = 0.98;
  while (too_much - enough > 0.01) {
    Recipe recipe = auto_recipe(budget);
    recipe.automatic.reset();
    recipe.prune->sparsity = 0.5 * (enough + too_much);
    const Compressed tried = compress(*dense_, recipe, validation_);
    const bool is_enough = tried.bytes >= by_layer.bytes;
    if (is_enough) uniform = tried;
    (is_enough ? enough : too_much) = recipe.prune->sparsity;
  }
  ASSERT_GE(uniform.bytes, by_layer.bytes);
  EXPECT_LE(by_layer.loss, uniform.loss);
  RecordProperty("by_layer", fmt::format("{} bytes, loss {}", by_layer.bytes, by_layer.loss));
  RecordProperty("uniform", fmt::format("{} bytes, loss {}", uniform.bytes, uniform.loss));
}

}  // namespace
}  // namespace podaq::test
