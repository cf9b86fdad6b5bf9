#include "podaq/compress/recipe.h"

#include <gtest/gtest.h>

#include <fstream>

#include "compress/network_builder.h"
#include "compress/refusals.h"
#include "podaq/compress/compressor.h"
#include "podaq/core/error.h"
#include "support/temporary_folder.h"

namespace podaq {
namespace {

constexpr const char* full_text = R"([epochs]
dense = 1
prune = 4.5
recover = 2
quantize = 2
freeze_batch_norm = 1
freeze_observers = 0.5

[prune]
sparsity = 0.9
initial_sparsity = 0.1
schedule = "one_shot"
criterion = "random"
seed = 7
pattern = "4x1"
distribution = "global"
update_every = 3
regrowth = { every = 20, fraction = 0.25 }
fold_rounded_zeros = "freeze_batch_norm"
layers = ["conv*", "classifier"]

[prune.by_layer]
"conv*" = 0.8
conv0 = 0.5

[quantize]
weight_bits = 6
activation_bits = 7
weight_scale = "least_squares"
weight_granularity = "tensor"
scale_mantissa_bits = 4
activation_scale = "learned"
step_learning_rate = 0.02
observer = "percentile"
percentile = 99.5
fixed_ranges = { "input" = [-1.0, 1.5] }
layers = ["*"]
float_layers = ["conv0"]
weight_bits_by_layer = { "classifier" = 4 }
activation_bits_by_layer = { "conv1" = 5, "*" = 6 }
activation_bits_by_value = { "input" = 8 }
float_values = ["pool*"]
quantized_values = ["mean.out"]

[quantize.post_training]
equalize_layers = true
adaptive_rounding = true
bias_correction = true
rounding_iterations = 50
rounding_learning_rate = 0.02
rounding_regularization = 0.1
)";

std::string refusal(const std::string& text) {
  try {
    (void)Recipe::parse(text, "r.toml");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::recipe);
    return error.what();
  }
  ADD_FAILURE() << "accepted:\n" << text;
  return {};
}

std::string refusal_by_network(const std::string& text) {
  try {
    const Compressor compressor(test::small_classifier(), Recipe::parse(text, "r.toml"));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::recipe);
    return error.what();
  }
  ADD_FAILURE() << "accepted:\n" << text;
  return {};
}

TEST(Recipe, ReadsEveryField) {
  const Recipe recipe = Recipe::parse(full_text);
  EXPECT_EQ(recipe.epochs.dense, 1);
  EXPECT_EQ(recipe.epochs.prune, 4.5);
  EXPECT_EQ(recipe.epochs.freeze_observers, 0.5);
  ASSERT_TRUE(recipe.prune.has_value());
  EXPECT_EQ(recipe.prune->sparsity, 0.9);
  EXPECT_EQ(recipe.prune->initial_sparsity, 0.1);
  EXPECT_EQ(recipe.prune->schedule, ScheduleKind::one_shot);
  EXPECT_EQ(std::get<RandomScore>(recipe.prune->criterion).seed, 7U);
  EXPECT_EQ(recipe.prune->pattern, Pattern(BlockPattern{.rows = 4, .columns = 1}));
  EXPECT_EQ(recipe.prune->distribution, Distribution::global);
  EXPECT_EQ(recipe.prune->update_every, 3);
  ASSERT_TRUE(recipe.prune->regrowth.has_value());
  EXPECT_EQ(recipe.prune->regrowth->every, 20);
  EXPECT_EQ(recipe.prune->regrowth->fraction, 0.25);
  EXPECT_EQ(recipe.prune->fold_rounded_zeros, Stage::freeze_batch_norm);
  EXPECT_EQ(recipe.prune->layers, (std::vector<std::string>{"conv*", "classifier"}));
  ASSERT_EQ(recipe.prune->by_layer.size(), 2U);
  EXPECT_EQ(recipe.prune->by_layer[0].layers, "conv*") << "exceptions keep the order of the text";
  EXPECT_EQ(recipe.prune->by_layer[1].sparsity, 0.5);
  ASSERT_TRUE(recipe.quantize.has_value());
  EXPECT_EQ(recipe.quantize->weight_bits, 6);
  EXPECT_EQ(recipe.quantize->activation_bits, 7);
  EXPECT_EQ(recipe.quantize->weight_scale, WeightScale::least_squares);
  EXPECT_EQ(recipe.quantize->weight_granularity, WeightGranularity::tensor);
  EXPECT_EQ(recipe.quantize->scale_mantissa_bits, 4);
  EXPECT_EQ(recipe.quantize->activation_scale, ActivationScale::learned);
  EXPECT_EQ(recipe.quantize->step_learning_rate, 0.02);
  EXPECT_EQ(std::get<PercentileObserver>(recipe.quantize->observer).percentile, 99.5);
  EXPECT_EQ(recipe.quantize->fixed_ranges.at(0).values, "input");
  EXPECT_EQ(recipe.quantize->fixed_ranges.at(0).range.maximum, 1.5);
  EXPECT_EQ(recipe.quantize->activation_bits_by_layer.at(1).names, "*") << "exceptions keep the order of the text";
  EXPECT_EQ(recipe.quantize->activation_bits_by_value.at(0).bits, 8);
  EXPECT_EQ(recipe.quantize->float_values, std::vector<std::string>{"pool*"});
  EXPECT_EQ(recipe.quantize->quantized_values, std::vector<std::string>{"mean.out"});
  ASSERT_TRUE(recipe.quantize->post_training.has_value());
  EXPECT_TRUE(recipe.quantize->post_training->equalize_layers);
  EXPECT_TRUE(recipe.quantize->post_training->adaptive_rounding);
  EXPECT_TRUE(recipe.quantize->post_training->bias_correction);
  EXPECT_EQ(recipe.quantize->post_training->rounding.iterations, 50);
  EXPECT_EQ(recipe.quantize->post_training->rounding.learning_rate, 0.02);
  EXPECT_EQ(recipe.quantize->post_training->rounding.regularization, 0.1);
  EXPECT_EQ(recipe.quantize->float_layers, std::vector<std::string>{"conv0"});
  EXPECT_EQ(recipe.quantize->weight_bits_by_layer.at(0).bits, 4);
}

TEST(Recipe, ComesBackFromItsOwnToml) {
  const Recipe recipe = Recipe::parse(full_text);
  const Recipe again = Recipe::parse(to_toml(recipe));
  EXPECT_EQ(to_toml(again), to_toml(recipe));
  EXPECT_EQ(again.prune->by_layer.at(1).layers, "conv0");
  EXPECT_EQ(recipe_hash(again), recipe_hash(recipe));
  EXPECT_EQ(recipe_hash(recipe).size(), 64U);
  Recipe other = recipe;
  other.prune->sparsity = 0.91;
  EXPECT_NE(recipe_hash(other), recipe_hash(recipe));
  other.prune->layers = {"odd \"name\" \\ \n"};
  EXPECT_EQ(Recipe::parse(to_toml(other)).prune->layers, other.prune->layers);
}

TEST(Recipe, LoadsFromAFileAndNamesItInErrors) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "recipe.toml";
  std::ofstream(path) << full_text;
  EXPECT_EQ(to_toml(Recipe::load(path)), to_toml(Recipe::parse(full_text)));
  std::ofstream(path) << "[epochs]\ndense = 1\n[prune]\nsparsitty = 0.5\n";
  try {
    (void)Recipe::load(path);
    FAIL();
  } catch (const Error& error) {
    test::expect_names(error.what(), {path.string() + ":4", "sparsitty"});
  }
  std::filesystem::remove(path);
  EXPECT_THROW((void)Recipe::load(path), Error);
}

TEST(Recipe, RefusesUnknownKeysWithTheirLine) {
  test::expect_names(refusal("[epochs]\ndense = 1\npruning = 2\n"), {"r.toml:3", "epochs.pruning", "prune"});
  test::expect_names(refusal("[epochs]\ndense = 1\n\n[qantize]\n"), {"r.toml:4", "qantize"});
  test::expect_names(refusal("[epochs]\nquantize = 1\n[quantize]\nbits = 8\n"), {"r.toml:4", "quantize.bits"});
}

TEST(Recipe, RefusesImpossibleValuesWithTheirLineAndRange) {
  const std::string head = "[epochs]\nprune = 1\n[prune]\n";
  test::expect_names(refusal(head + "sparsity = 1.5\n"), {"r.toml:4", "prune.sparsity", "1.5", "[0, 1]"});
  test::expect_names(refusal(head + "sparsity = -0.1\n"), {"r.toml:4", "prune.sparsity"});
  test::expect_names(refusal(head + "sparsity = nan\n"), {"r.toml:4", "prune.sparsity"});
  test::expect_names(refusal(head + "sparsity = 0.5\ninitial_sparsity = 0.6\n"),
                     {"r.toml:5", "prune.initial_sparsity"});
  test::expect_names(refusal(head + "sparsity = 0.5\n\nby_layer = { conv0 = 2 }\n"), {"r.toml:6", "conv0"});
  test::expect_names(refusal("[epochs]\nquantize = 1\n[quantize]\nweight_bits = 9\n"),
                     {"r.toml:4", "quantize.weight_bits", "[2, 8]"});
  test::expect_names(refusal("[epochs]\nquantize = 1\n[quantize]\nactivation_bits = 3\n"), {"r.toml:4", "[4, 8]"});
  const std::string quantize = "[epochs]\nquantize = 1\n[quantize]\n";
  test::expect_names(refusal(quantize + "averaging_constant = 0\n"), {"r.toml:4", "(0, 1]"});
  test::expect_names(refusal(quantize + "observer = \"percentile\"\npercentile = 50\n"), {"r.toml:5", "(50, 100]"});
  test::expect_names(refusal(quantize + "percentile = 99\n"), {"r.toml:4", "quantize.percentile", "observer"});
  test::expect_names(refusal(quantize + "scale_mantissa_bits = 24\n"), {"r.toml:4", "[0, 23]"});
  test::expect_names(refusal(quantize + "scale_mantissa_bits = 4\nweight_scale = \"learned\"\n"),
                     {"r.toml:4", "learned"});
  test::expect_names(refusal(quantize + "step_learning_rate = -1\n"), {"r.toml:4", "[0, 1000]"});
  test::expect_names(refusal(quantize + "fixed_ranges = { input = [1, -1] }\n"), {"r.toml:4", "input"});
  test::expect_names(refusal(quantize + "fixed_ranges = { input = [1] }\n"), {"r.toml:4", "two numbers"});
  test::expect_names(refusal(quantize + "weight_scale = \"max\"\n"), {"r.toml:4", "largest", "learned"});
  test::expect_names(refusal(quantize + "activation_bits_by_layer = { conv0 = 3 }\n"), {"r.toml:4", "conv0", "[4, 8]"});
  const std::string post_training = quantize + "[quantize.post_training]\n";
  test::expect_names(refusal(post_training + "bias_correction = 1\n"), {"r.toml:5", "true or false"});
  test::expect_names(refusal(post_training + "rounding_iterations = 0\n"),
                     {"r.toml:5", "rounding_iterations", "1000000"});
  test::expect_names(refusal(post_training + "rounding_learning_rate = 0\n"), {"r.toml:5", "(0, 1]"});
  test::expect_names(refusal(quantize + "activation_bits_by_value = { input = 9 }\n"), {"r.toml:4", "input", "[4, 8]"});
  test::expect_names(refusal("[epochs]\ndense = -1\n"), {"r.toml:2", "epochs.dense"});
}

TEST(Recipe, RefusesValuesOfAnotherTypeWithTheirLine) {
  test::expect_names(refusal("[epochs]\ndense = \"1\"\n"), {"r.toml:2", "epochs.dense", "number"});
  test::expect_names(refusal("[epochs]\nprune = 1\n[prune]\ndistribution = \"network\"\n"),
                     {"r.toml:4", "prune.distribution", "uniform", "global", "erk"});
  test::expect_names(refusal("[epochs]\nprune = 1\n[prune]\ncriterion = \"custom\"\n"),
                     {"r.toml:4", "prune.criterion", "taylor", "C++"});
  test::expect_names(refusal("[epochs]\nprune = 1\n[prune]\npattern = \"4:2\"\n"),
                     {"r.toml:4", "prune.pattern", "2:4"});
  test::expect_names(refusal("[epochs]\nprune = 1\n[prune]\nregrowth = 3\n"), {"r.toml:4", "prune.regrowth", "table"});
  test::expect_names(refusal("[epochs]\nprune = 1\n[prune]\nrounds = 2.5\n"), {"r.toml:4", "whole number"});
  test::expect_names(refusal("[epochs]\nprune = 1\n[prune]\nlayers = \"*\"\n"), {"r.toml:4", "prune.layers"});
  test::expect_names(refusal("[epochs]\nprune = 1\n[prune]\nlayers = [1]\n"), {"r.toml:4", "prune.layers"});
  test::expect_names(refusal("[epochs]\nquantize = 1\n[quantize]\nweight_bits = 7.5\n"), {"r.toml:4", "whole number"});
  test::expect_names(refusal("epochs = 3\n"), {"r.toml:1", "epochs", "table"});
  test::expect_names(refusal("[epochs\n"), {"r.toml:1"});
}

TEST(Recipe, RefusesStagesItHasNoUseFor) {
  test::expect_names(refusal("[epochs]\ndense = 1\nprune = 2\n"), {"r.toml:3", "epochs.prune", "[prune]"});
  test::expect_names(refusal("[epochs]\ndense = 1\nquantize = 2\n"), {"r.toml:3", "epochs.quantize"});
  test::expect_names(refusal("[epochs]\ndense = 1\nfreeze_observers = 2\n"), {"r.toml:3", "epochs.freeze_observers"});
  test::expect_names(refusal("[epochs]\ndense = 1\n[quantize]\n"), {"epochs.quantize"});
  test::expect_names(refusal("[epochs]\n"), {"r.toml:1", "epochs", "0"});
}

TEST(Recipe, RefusesGlobsThatMatchNoLayerWithTheirLineAndTheLayersThereAre) {
  test::expect_names(refusal_by_network("[epochs]\nprune = 1\n[prune]\nsparsity = 0.5\nlayers = [\n  \"conv*\",\n"
                                        "  \"features.*\",\n]\n"),
                     {"r.toml:7", "features.*", "conv0, conv1, classifier"});
  test::expect_names(refusal_by_network("[epochs]\nprune = 1\n[prune.by_layer]\nconv7 = 0.5\n"), {"r.toml:4", "conv7"});
  test::expect_names(refusal_by_network("[epochs]\nquantize = 1\n[quantize]\nfloat_layers = [\"head\"]\n"),
                     {"r.toml:4", "head"});
  test::expect_names(refusal_by_network("[epochs]\nquantize = 1\n[quantize.weight_bits_by_layer]\nhead = 4\n"),
                     {"r.toml:4", "head"});
  test::expect_names(refusal_by_network("[epochs]\nquantize = 1\n[quantize.activation_bits_by_layer]\nhead = 4\n"),
                     {"r.toml:4", "head"});
}

TEST(Recipe, RefusesValuesThatCannotBeQuantizedAsAskedByName) {
  const std::string head = "[epochs]\nquantize = 1\n[quantize]\n";
  test::expect_names(refusal_by_network(head + "float_values = [\"nowhere\"]\n"),
                     {"r.toml:4", "nowhere", "input, ", "relu0.out"});
  test::expect_names(refusal_by_network(head + "float_values = [\"pool0.out\"]\n"),
                     {"quantize.float_values", "pool0.out", "conv1"});
  test::expect_names(refusal_by_network(head + "float_values = [\"mean.out\"]\nquantized_values = [\"mean.out\"]\n"),
                     {"mean.out", "both"});
  test::expect_names(refusal_by_network(head + "quantized_values = [\"conv0.out\"]\n"), {"r.toml:4", "conv0.out"});
  test::expect_names(refusal_by_network(head + "fixed_ranges = { \"classifier.out\" = [0, 1] }\n"),
                     {"r.toml:4", "classifier.out", "placement_text"});
  test::expect_names(refusal_by_network(head + "activation_bits_by_value = { \"classifier.out\" = 4 }\n"),
                     {"r.toml:4", "classifier.out"});
}

// C25: the nearest reachable sparsity is named.
TEST(Recipe, RefusesToEmptyLayersAndNamesTheNearestReachableSparsity) {
  test::expect_names(refusal_by_network("[epochs]\nprune = 1\n[prune]\nsparsity = 1.0\nlayers = [\"classifier\"]\n"),
                     {"r.toml:4", "prune.sparsity", "0.96875", "31 of 32"});
  test::NetworkBuilder net;
  const ValueId x = net.input("input", {100});
  const auto model = net.build({net.linear(x, "only", 1)});
  const Recipe recipe{.epochs = {.prune = 1}, .prune = PruneRecipe{.sparsity = 1.0}};
  try {
    const Compressor compressor(model, recipe);
    FAIL();
  } catch (const Error& error) {
    test::expect_names(error.what(), {"prune.sparsity", "0.99"});
  }
}

TEST(Recipe, RefusesASparsityThatNoLayerGets) {
  const std::string head = "[epochs]\nprune = 1\n[prune]\n";
  for (const char* sparsity : {"0.5", "1.0"}) {
    const std::string error = refusal_by_network(head + "sparsity = " + sparsity + "\nlayers = []\n");
    test::expect_names(error, {"r.toml:5", "prune.layers", "conv0, conv1, classifier"});
    EXPECT_EQ(error.find("nan"), std::string::npos) << error;
  }
  const std::string error = refusal_by_network(head + "sparsity = 1\nby_layer = { \"*\" = 0.5 }\n");
  test::expect_names(error, {"r.toml:4", "prune.sparsity"});
  EXPECT_EQ(error.find("nan"), std::string::npos) << error;
  const auto model = test::small_classifier();
  EXPECT_NO_THROW(Compressor(model, Recipe::parse(head + "layers = []\n")));
  EXPECT_NO_THROW(Compressor(model, Recipe::parse(head + "layers = []\nby_layer = { conv0 = 0.5 }\n")));
}

TEST(Recipe, RefusesGlobsThatMatchOnlyFrozenLayers) {
  const auto model = test::small_classifier();
  for (const char* layer : {"conv0", "conv1"}) model->tensor(std::string(layer) + ".weight").set_requires_grad(false);
  const auto refusal_of = [&](const PruneRecipe& prune) -> std::string {
    try {
      const Compressor compressor(model, {.epochs = {.prune = 1}, .prune = prune});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::recipe);
      return error.what();
    }
    return {};
  };
  test::expect_names(refusal_of({.sparsity = 0.5, .layers = {"classifier", "conv*"}}),
                     {"prune.layers.\"conv*\"", "conv0, conv1", "gradient"});
  test::expect_names(refusal_of({.sparsity = 0.5, .by_layer = {{.layers = "conv?", .sparsity = 0.25}}}),
                     {"prune.by_layer.\"conv?\"", "conv0, conv1", "gradient"});
  EXPECT_EQ(refusal_of({.sparsity = 0.5, .layers = {"*"}}), "");
  EXPECT_EQ(refusal_of({.sparsity = 0.5, .layers = {"conv0", "conv1"}}), "") << "named without a wildcard";
  EXPECT_EQ(refusal_of({.sparsity = 0.5, .by_layer = {{.layers = "conv?", .sparsity = 0}}}), "") << "left alone";
}

TEST(Recipe, TakesItsStagesSumInEpochsRoundedUp) {
  const auto epochs_of = [](const StageLengths& epochs) { return whole_epochs({.epochs = epochs}); };
  EXPECT_EQ(epochs_of({.dense = 3}), 3);
  EXPECT_EQ(epochs_of({.dense = 3.25}), 4);
  EXPECT_EQ(epochs_of({.dense = 0.5, .freeze_batch_norm = 0.75}), 2);
  EXPECT_EQ(epochs_of({.dense = 0.2, .prune = 0.4, .recover = 0.3, .quantize = 0.1}), 1)
      << "the sum exceeds 1 by a rounding";
  EXPECT_EQ(epochs_of({.dense = 1e-12}), 1);
  EXPECT_EQ(epochs_of({}), 0);
}

TEST(Recipe, BuiltInCppIsCheckedToo) {
  const auto model = test::small_classifier();
  EXPECT_THROW(Compressor(model, Recipe{}), Error);
  EXPECT_THROW(Compressor(model, {.epochs = {.prune = 1}, .prune = PruneRecipe{.sparsity = -0.5}}), Error);
  EXPECT_THROW(Compressor(model, {.epochs = {.quantize = 1}, .quantize = QuantizeRecipe{.weight_bits = 1}}), Error);
  EXPECT_THROW(Compressor(nullptr, {.epochs = {.dense = 1}}), Error);
}

}  // namespace
}  // namespace podaq
