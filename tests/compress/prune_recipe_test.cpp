#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "compress/network_builder.h"
#include "compress/refusals.h"
#include "compress/training_loop.h"
#include "podaq/compress/compressor.h"
#include "podaq/core/error.h"
#include "podaq/prune/selection.h"

namespace podaq {
namespace {

using test::small_classifier;

std::string table_refusal(const std::string& prune_table,
                          const std::string& epochs = "dense = 1\nprune = 1\nrecover = 1") {
  return test::refusal_of(ErrorCode::recipe, [&] {
    const Compressor compressor(small_classifier(),
                                Recipe::parse("[prune]\n" + prune_table + "\n[epochs]\n" + epochs + "\n", "r.toml"));
  });
}

TEST(PruneRecipe, OfEveryCriterionAndPatternComesBackFromItsOwnToml) {
  std::vector<PruneRecipe> recipes = {
      {.criterion = DeviationThreshold{.alpha = 0.75}, .schedule = ScheduleKind::constant},
      {.pattern = NOfMPattern{2, 4}, .schedule = ScheduleKind::linear},
      {.sparsity = 0.5, .schedule = ScheduleKind::iterative, .rounds = 4, .rewind_epoch = 0.25},
      {.sparsity = 0.5, .update_every = 12},
      {.sparsity = 0.5, .criterion = GeometricMedian{}, .pattern = ChannelPattern{}, .distribution = Distribution::erk},
      {.sparsity = 0.5, .pattern = ChannelPattern{.align = 4}, .remove_channels = false},
      {.sparsity = 0.5, .pattern = BlockPattern{2, 3}, .regrowth = Regrowth{.every = 7, .fraction = 0.125}}};
  for (const char* name : {"magnitude_l2", "taylor", "movement", "lamp", "random"})
    recipes.push_back({.sparsity = 0.5, .criterion = *parse_criterion(name), .schedule = ScheduleKind::exponential});
  for (const PruneRecipe& prune : recipes) {
    const Recipe recipe{.epochs = {.dense = 1, .prune = 1, .recover = 1}, .prune = prune};
    const Recipe again = Recipe::parse(to_toml(recipe));
    EXPECT_EQ(to_toml(again), to_toml(recipe));
    EXPECT_EQ(again.prune->criterion.index(), prune.criterion.index());
    EXPECT_EQ(again.prune->pattern, prune.pattern);
    EXPECT_EQ(again.prune->rewind_epoch, prune.rewind_epoch);
    EXPECT_EQ(again.prune->update_every, prune.update_every);
    EXPECT_EQ(again.prune->remove_channels, prune.remove_channels);
  }
}

TEST(PruneRecipe, WithAnotherFunctionIsAnotherRecipe) {
  const auto hash_of = [](const std::string& name) {
    const ScoreFunction score = [](const auto&, const auto& weight, const auto&) { return weight; };
    return recipe_hash({.epochs = {.prune = 1},
                        .prune = PruneRecipe{.sparsity = 0.5, .criterion = CustomScore{.name = name, .score = score}}});
  };
  EXPECT_EQ(hash_of("fisher"), hash_of("fisher"));
  EXPECT_NE(hash_of("fisher"), hash_of("mine"));
}

TEST(PruneRecipe, RefusesKeysThatGoWithSomethingElse) {
  test::expect_names(table_refusal("sparsity = 0.5\nseed = 1"), {"r.toml:3", "prune.seed", "random"});
  test::expect_names(table_refusal("sparsity = 0.5\ncriterion = \"random\"\nseed = -1"),
                     {"r.toml:4", "prune.seed", "negative"});
  test::expect_names(table_refusal("sparsity = 0.5\nalpha = 1"), {"r.toml:3", "prune.alpha", "threshold"});
  test::expect_names(table_refusal("sparsity = 0.5\nrounds = 3"), {"r.toml:3", "prune.rounds", "iterative"});
  test::expect_names(table_refusal("sparsity = 0.5\nschedule = \"iterative\""),
                     {"r.toml:3", "prune.schedule", "prune.rounds"});
  test::expect_names(table_refusal("sparsity = 0.5\nrewind_epoch = 0"),
                     {"r.toml:3", "prune.rewind_epoch", "iterative"});
}

TEST(PruneRecipe, RefusesNumbersOutOfRange) {
  test::expect_names(table_refusal("criterion = \"threshold\"\nalpha = 0"),
                     {"r.toml:2", "prune.criterion", "alpha", "(0, 10]"});
  test::expect_names(table_refusal("sparsity = 0.5\nupdate_every = 0"), {"r.toml:3", "prune.update_every", "[1, "});
  test::expect_names(table_refusal("sparsity = 0.5\nschedule = \"iterative\"\nrounds = 0"),
                     {"r.toml:4", "prune.rounds", "[1, 1000]"});
  test::expect_names(table_refusal("sparsity = 0.5\nregrowth = { every = 0 }"),
                     {"r.toml:3", "prune.regrowth", "every"});
  test::expect_names(table_refusal("sparsity = 0.5\nregrowth = { fraction = 0 }"),
                     {"r.toml:3", "prune.regrowth", "(0, 1]"});
  test::expect_names(table_refusal("sparsity = 0.5\nschedule = \"iterative\"\nrounds = 4\nrewind_epoch = 1.25"),
                     {"r.toml:5", "prune.rewind_epoch", "[0, 1.25)"});
}

TEST(PruneRecipe, RefusesCriteriaThatDoNotFitNamingBothFields) {
  test::expect_names(table_refusal("sparsity = 0.5\ncriterion = \"geometric_median\""),
                     {"r.toml:3", "prune.criterion", "geometric_median", "pattern", "unstructured"});
  EXPECT_EQ(table_refusal("sparsity = 0.5\ncriterion = \"batch_norm_scale\"\npattern = \"channels\""), "");
  test::expect_names(table_refusal("sparsity = 0.5\ncriterion = \"threshold\""),
                     {"r.toml:2", "prune.sparsity", "threshold"});
  test::expect_names(table_refusal("criterion = \"threshold\"\ndistribution = \"erk\""),
                     {"r.toml:3", "prune.distribution"});
  test::expect_names(table_refusal("criterion = \"threshold\"\nschedule = \"exponential\""),
                     {"r.toml:3", "prune.schedule"});
  test::expect_names(table_refusal("sparsity = 0.5\ncriterion = \"taylor\"\nschedule = \"constant\""),
                     {"r.toml:4", "prune.schedule", "taylor", "one_shot"});
  test::expect_names(table_refusal("sparsity = 0.5\ninitial_sparsity = 0.1\ncriterion = \"movement\""),
                     {"r.toml:3", "prune.initial_sparsity", "movement"});
  test::expect_names(table_refusal("sparsity = 0.5\ncriterion = \"taylor\"", "recover = 1"),
                     {"epochs.prune", "taylor"});
}

TEST(PruneRecipe, RefusesWhatDoesNotGoWithChannels) {
  test::expect_names(table_refusal("sparsity = 0.5\nalign = 4"), {"r.toml:3", "prune.align", "channels"});
  test::expect_names(table_refusal("sparsity = 0.5\nremove_channels = true"),
                     {"r.toml:3", "prune.remove_channels", "channels"});
  test::expect_names(table_refusal("sparsity = 0.5\npattern = \"channels\"\nalign = 0"),
                     {"r.toml:3", "prune.pattern", "align = 0", "[1, 1024]"});
  test::expect_names(table_refusal("sparsity = 0.5\npattern = \"channels\"\nregrowth = {}"),
                     {"r.toml:4", "prune.regrowth", "channels"});
  const std::string channels = "sparsity = 0.5\npattern = \"channels\"";
  test::expect_names(table_refusal(channels, "recover = 1"), {"epochs.prune", "removed", "remove_channels = false"});
  EXPECT_EQ(table_refusal(channels + "\nremove_channels = false", "recover = 1"), "");
  EXPECT_EQ(table_refusal(channels), "");
}

TEST(PruneRecipe, OfChannelsRefusesLayersWhoseChannelsMustStayAndUnequalSharesOfTiedOnes) {
  test::expect_names(table_refusal("sparsity = 0.5\npattern = \"channels\"\nlayers = [\"classifier\"]"),
                     {"r.toml:4", "prune.layers", "'classifier'", "must stay"});
  test::NetworkBuilder net;
  const ValueId x = net.conv(net.input("input", {2, 8}), "first", 8, 3);
  const ValueId sum = net.apply(Add{}, "sum", {x, net.conv(net.relu(x, "relu"), "second", 8, 3)});
  const auto model = net.build({net.linear(net.apply(GlobalMean{}, "mean", {sum}), "head", 3)});
  const auto refusal_by = [&](const PruneRecipe& prune) {
    return test::refusal_of(ErrorCode::recipe,
                            [&] { const Compressor compressor(model, {.epochs = {.prune = 1}, .prune = prune}); });
  };
  test::expect_names(refusal_by({.sparsity = 0.5, .pattern = ChannelPattern{}, .layers = {"second"}}),
                     {"prune.layers", "'second'", "'first'", "together"});
  test::expect_names(refusal_by({.sparsity = 0.5, .pattern = ChannelPattern{}, .by_layer = {{"second", 0.25}}}),
                     {"prune.by_layer.\"second\"", "0.25", "'first'", "'second'", "0.5"});
  test::expect_names(refusal_by({.sparsity = 1, .pattern = ChannelPattern{}}), {"0.875", "7 of 8 channels"});
  EXPECT_EQ(refusal_by({.sparsity = 0.5, .pattern = ChannelPattern{}}), "");
  EXPECT_EQ(refusal_by({.sparsity = 0.5, .pattern = ChannelPattern{}, .by_layer = {{"*", 0.25}}}), "");
}

// C02: pytorch #27605.
TEST(PruneRecipe, RefusesGradientsOfAFrozenLayerByName) {
  const auto model = small_classifier();
  model->tensor("conv1.weight").set_requires_grad(false);
  const auto refusal_by = [&](const PruneRecipe& prune) {
    return test::refusal_of(ErrorCode::recipe,
                            [&] { const Compressor compressor(model, {.epochs = {.prune = 1}, .prune = prune}); });
  };
  for (const Criterion& criterion : std::vector<Criterion>{Taylor{}, Movement{}}) {
    test::expect_names(refusal_by({.sparsity = 0.5, .criterion = criterion, .layers = {"*", "conv1"}}),
                       {"prune.criterion", "'conv1'", "gradient"});
    EXPECT_EQ(refusal_by({.sparsity = 0.5, .criterion = criterion}), "") << "wildcards leave it alone";
  }
  test::expect_names(refusal_by({.sparsity = 0.5, .regrowth = Regrowth{}, .layers = {"conv1"}}),
                     {"prune.regrowth", "'conv1'", "gradient"});
}

// INC PR #1211: N:M missed its target.
TEST(PruneRecipe, OfNOfMNamesTheOnlyReachableSparsity) {
  test::expect_names(table_refusal("sparsity = 0.6\npattern = \"2:4\""),
                     {"r.toml:2", "prune.sparsity", "0.6", "2:4", "0.5"});
  test::expect_names(table_refusal("pattern = \"2:4\"\nby_layer = { conv0 = 0.9 }"), {"r.toml:3", "conv0", "0.5"});
  test::expect_names(table_refusal("pattern = \"2:4\"\ndistribution = \"global\""),
                     {"r.toml:3", "prune.distribution", "2:4"});
  test::expect_names(table_refusal("pattern = \"2:4\"\nregrowth = {}"), {"r.toml:3", "prune.regrowth", "2:4"});
  test::expect_names(table_refusal("pattern = \"2:4\"\nlayers = [\"conv0\"]"), {"r.toml:2", "prune.pattern", "2:4"});
  EXPECT_EQ(table_refusal("sparsity = 0.5\npattern = \"2:4\""), "");
  EXPECT_EQ(table_refusal("pattern = \"2:4\"\nby_layer = { conv1 = 0 }"), "");
}

// C25 for blocks and channels.
TEST(PruneRecipe, RefusesToEmptyLayersAndNamesTheNearestReachableShareOfBlocks) {
  test::expect_names(table_refusal("sparsity = 1\npattern = \"4x1\"\nlayers = [\"conv1\"]"),
                     {"prune.sparsity", "47 of 48 4x1 blocks"});
  test::expect_names(table_refusal("sparsity = 1\npattern = \"channels\"\nlayers = [\"conv1\"]"),
                     {"0.875", "7 of 8 channels"});
}

TEST(PruneRecipe, RefusesSchedulesLongerThanTheStageWhenItLearnsTheSteps) {
  const auto model = small_classifier();
  torch::optim::SGD optimizer(model->parameters(), 0.01);
  const auto refusal_by = [&](const PruneRecipe& prune) {
    return test::refusal_of(ErrorCode::recipe, [&] {
      Compressor compressor(model, {.epochs = {.prune = 2}, .prune = prune});
      compressor.attach(optimizer, {.steps_per_epoch = 4});
    });
  };
  test::expect_names(refusal_by({.sparsity = 0.5, .update_every = 9}),
                     {"prune.update_every", "9", "8 optimizer steps"});
  test::expect_names(refusal_by({.sparsity = 0.5, .schedule = ScheduleKind::iterative, .rounds = 9}),
                     {"prune.rounds", "8"});
  test::expect_names(refusal_by({.sparsity = 0.5, .regrowth = Regrowth{.every = 8}}), {"prune.regrowth", "every", "8"});
  EXPECT_EQ(refusal_by({.sparsity = 0.5, .update_every = 8, .regrowth = Regrowth{.every = 7}}), "");
}

// The steps of a ramp of 500 at which the number of masked weights changes, and how many there are at its end.
struct MaskChanges {
  std::vector<std::int64_t> steps;
  std::int64_t masked = 0;
};

MaskChanges mask_changes(const PruneRecipe& prune) {
  torch::manual_seed(3);
  const auto model = small_classifier();
  torch::optim::SGD optimizer(model->parameters(), 0.02);
  Compressor compressor(model, {.epochs = {.prune = 5}, .prune = prune});
  compressor.attach(optimizer, {.steps_per_epoch = 100});
  MaskChanges changes;
  std::int64_t step = 0;
  test::run_recipe(
      *model, optimizer, compressor, 100, [] { return test::make_batch(2, 2, 16, 4); },
      [&] {
        std::int64_t masked = 0;
        for (const LayerReport& layer : compressor.report().layers) masked += layer.masked;
        ++step;
        if (masked != changes.masked) changes.steps.push_back(step);
        changes.masked = masked;
      });
  return changes;
}

TEST(PruneRecipe, WithoutUpdateEveryMovesMasksAHundredTimesAndEndsExactly) {
  const MaskChanges changes = mask_changes({.sparsity = 0.75, .schedule = ScheduleKind::linear, .layers = {"conv1"}});
  EXPECT_EQ(changes.steps.size(), 100U);
  for (const std::int64_t step : changes.steps) EXPECT_EQ(step % 5, 0);
  EXPECT_EQ(changes.steps.back(), 500);
  EXPECT_EQ(changes.masked, 144);
}

// Rounds end where they end, and the threshold follows the weights.
TEST(PruneRecipe, WithoutUpdateEveryLooksAtEveryStepForRoundsAndThreshold) {
  const MaskChanges rounds = mask_changes({.sparsity = 0.75, .schedule = ScheduleKind::iterative, .rounds = 3});
  EXPECT_EQ(rounds.steps, (std::vector<std::int64_t>{167, 334, 500}));
  const MaskChanges threshold = mask_changes({.criterion = DeviationThreshold{.alpha = 0.75}});
  EXPECT_TRUE(std::ranges::any_of(threshold.steps, [](std::int64_t step) { return step % 5 != 0; }));
}

TEST(PruneRecipe, FoldsOnlyWhereItQuantizes) {
  test::expect_names(table_refusal("sparsity = 0.5\nfold_rounded_zeros = \"quantize\""), {"r.toml:3", "[quantize]"});
  test::expect_names(table_refusal("sparsity = 0.5\nfold_rounded_zeros = \"recover\""),
                     {"r.toml:3", "freeze_batch_norm"});
  const Recipe recipe{.epochs = {.prune = 1, .quantize = 1},
                      .prune = PruneRecipe{.sparsity = 0.5, .fold_rounded_zeros = Stage::freeze_observers},
                      .quantize = QuantizeRecipe{}};
  test::expect_names(
      test::refusal_of(ErrorCode::recipe, [&] { const Compressor compressor(small_classifier(), recipe); }),
      {"prune.fold_rounded_zeros", "epochs.freeze_observers"});
  const Recipe foreign{.epochs = {.prune = 1, .quantize = 1},
                       .prune = PruneRecipe{.sparsity = 0.5, .fold_rounded_zeros = Stage::goldbarg},
                       .quantize = QuantizeRecipe{}};
  test::expect_names(
      test::refusal_of(ErrorCode::recipe, [&] { const Compressor compressor(small_classifier(), foreign); }),
      {"prune.fold_rounded_zeros", "a stage that quantizes"});
}

std::int64_t zeros_of(const GraphModule& model, const std::string& weight) {
  return model.tensor(weight).eq(0).sum().item<std::int64_t>();
}

TEST(Compressor, DistributesTheZerosByErkToTheExactSum) {
  torch::manual_seed(5);
  const auto model = small_classifier();
  torch::optim::SGD optimizer(model->parameters(), 0.01);
  Compressor compressor(
      model, {.epochs = {.prune = 1}, .prune = PruneRecipe{.sparsity = 0.75, .distribution = Distribution::erk}});
  compressor.attach(optimizer, {.steps_per_epoch = 3});
  for (int step = 0; step < 3; ++step) compressor.step();
  const std::int64_t first = zeros_of(*model, "conv0.weight");
  const std::int64_t second = zeros_of(*model, "conv1.weight");
  const std::int64_t last = zeros_of(*model, "classifier.weight");
  EXPECT_EQ(first + second + last, zeros_at(0.75, 48 + 192 + 32, 3));
  EXPECT_LT(static_cast<double>(first) / 48, static_cast<double>(second) / 192);
}

TEST(Compressor, PrunesTwoOfFourDuringTraining) {
  torch::manual_seed(6);
  const auto model = small_classifier();
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.01).weight_decay(0.01));
  Compressor compressor(model,
                        {.epochs = {.prune = 1, .recover = 1}, .prune = PruneRecipe{.pattern = NOfMPattern{2, 4}}});
  compressor.attach(optimizer, {.steps_per_epoch = 4});
  test::run_recipe(*model, optimizer, compressor, 4, [] { return test::make_batch(16, 2, 16, 4); });
  const torch::Tensor kept = model->tensor("conv1.weight").ne(0).reshape({8, 2, 4, 3}).sum(2);
  EXPECT_TRUE(kept.eq(2).all().item<bool>());
  EXPECT_EQ(zeros_of(*model, "conv0.weight"), 0) << "two inputs: nothing to prune";
  EXPECT_EQ(zeros_of(*model, "classifier.weight"), 16);
}

// numerics.md 5.3: effective sparsity counts weights rounded to 0 apart from the mask.
TEST(Compressor, CountsWeightsThatRoundToZeroApartFromTheMask) {
  torch::manual_seed(7);
  const auto model = small_classifier();
  torch::optim::SGD optimizer(model->parameters(), 0.02);
  Compressor compressor(model, {.epochs = {.prune = 1, .quantize = 1},
                                .prune = PruneRecipe{.sparsity = 0.25},
                                .quantize = QuantizeRecipe{.weight_bits = 3, .float_layers = {"conv0"}}});
  compressor.attach(optimizer, {.steps_per_epoch = 4});
  EXPECT_EQ(compressor.report().layers.at(1).rounded_to_zero, 0) << "nothing is quantized yet";
  test::run_recipe(*model, optimizer, compressor, 4, [] { return test::make_batch(16, 2, 16, 4); });
  const CompressionReport report = compressor.report();
  EXPECT_EQ(report.layers.at(0).rounded_to_zero, 0) << "a float layer";
  const LayerReport& layer = report.layers.at(1);
  EXPECT_EQ(layer.masked, 48);
  EXPECT_EQ(layer.zeros, 48);
  const Tensor codes = tensor_at(compressor.convert(), "conv1.weight");
  const std::int64_t zero_codes = std::ranges::count(elements<std::int8_t>(codes), std::int8_t{0});
  EXPECT_GT(layer.rounded_to_zero, 0);
  EXPECT_EQ(layer.zeros + layer.rounded_to_zero, zero_codes);
  EXPECT_NE(to_text(report).find("rounded"), std::string::npos);
}

TEST(Compressor, FoldsWeightsThatRoundToZeroIntoTheMaskAtTheEndOfTheStage) {
  torch::manual_seed(8);
  const auto model = small_classifier();
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.02).momentum(0.9));
  Compressor compressor(
      model, {.epochs = {.prune = 1, .quantize = 1, .freeze_observers = 1},
              .prune = PruneRecipe{.sparsity = 0.25, .fold_rounded_zeros = Stage::quantize, .layers = {"conv1"}},
              .quantize = QuantizeRecipe{.weight_bits = 3}});
  compressor.attach(optimizer, {.steps_per_epoch = 4});
  std::int64_t rounded = -1;
  torch::Tensor folded;
  for (; compressor.epoch() < compressor.epochs(); compressor.end_epoch())
    for (int step = 0; step < 4; ++step) {
      model->train();
      test::train_step(*model, optimizer, test::make_batch(16, 2, 16, 4));
      compressor.step();
      const CompressionReport report = compressor.report();
      const LayerReport& layer = report.layers.at(1);
      EXPECT_EQ(layer.masked, layer.zeros);
      if (compressor.stage() == Stage::freeze_observers) {
        const torch::Tensor zeros = model->tensor("conv1.weight") == 0;
        EXPECT_GT(layer.masked, 48);
        if (folded.defined()) {
          EXPECT_TRUE(zeros.equal(folded)) << "folded weights stay 0, whatever momentum does";
        } else {
          EXPECT_EQ(layer.rounded_to_zero, 0) << "right after folding";
        }
        folded = zeros;
        EXPECT_EQ(report.layers.at(2).masked, 0) << "the recipe does not prune it";
      } else {
        rounded = layer.rounded_to_zero;
        EXPECT_LE(layer.masked, 48);
        if (compressor.stage() == Stage::quantize) {
          EXPECT_NE(test::refusal_of(ErrorCode::recipe,
                                     [&] {
                                       try {
                                         (void)compressor.convert();
                                       } catch (const Error& error) {
                                         throw Error(ErrorCode::recipe, error.what());
                                       }
                                     }),
                    "")
              << "masks are not fixed yet";
        }
      }
    }
  EXPECT_GT(rounded, 0);
  EXPECT_NO_THROW((void)compressor.convert());
}

}  // namespace
}  // namespace podaq
