#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <functional>

#include "compress/refusals.h"
#include "compress/tampering.h"
#include "compress/training_run.h"
#include "podaq/core/error.h"
#include "podaq/format/file.h"
#include "support/temporary_folder.h"

namespace podaq {
namespace {

using test::TrainingRun;

struct StatefulPruning {
  std::string name;
  PruneRecipe prune;
};

std::vector<StatefulPruning> stateful_prunings() {
  return {
      {"Taylor", {.sparsity = 0.75, .criterion = Taylor{}, .update_every = 2}},
      {"TaylorOneShot", {.sparsity = 0.75, .criterion = Taylor{}, .schedule = ScheduleKind::one_shot}},
      {"MovementBlocks", {.sparsity = 0.75, .criterion = Movement{}, .pattern = BlockPattern{4, 1}}},
      {"MovementGlobal",
       {.sparsity = 0.75,
        .criterion = Movement{},
        .distribution = Distribution::global,
        .schedule = ScheduleKind::linear}},
      {"Random", {.sparsity = 0.75, .criterion = RandomScore{.seed = 5}, .distribution = Distribution::erk}},
      {"Threshold", {.criterion = DeviationThreshold{.alpha = 0.6}, .schedule = ScheduleKind::constant}},
      {"TwoOfFour", {.pattern = NOfMPattern{2, 4}, .schedule = ScheduleKind::exponential}},
      {"Regrowing", {.sparsity = 0.75, .initial_sparsity = 0.5, .regrowth = Regrowth{.every = 2, .fraction = 0.4}}},
      {"Rewinding", {.sparsity = 0.75, .schedule = ScheduleKind::iterative, .rounds = 3, .rewind_epoch = 0.6}},
      {"Channels", {.sparsity = 0.5, .pattern = ChannelPattern{}, .fold_rounded_zeros = Stage::quantize}},
      {"AlignedChannels",
       {.sparsity = 0.6,
        .criterion = Taylor{},
        .pattern = ChannelPattern{.align = 2},
        .distribution = Distribution::global}},
      {"StayingChannels", {.sparsity = 0.5, .pattern = ChannelPattern{}, .remove_channels = false}},
      {"Folding", {.sparsity = 0.5, .fold_rounded_zeros = Stage::quantize}},
  };
}

Recipe recipe_of(const PruneRecipe& prune) {
  return {.epochs = {.dense = 1, .prune = 2, .recover = 1, .quantize = 1, .freeze_observers = 1},
          .prune = prune,
          .quantize = QuantizeRecipe{.weight_bits = 3}};
}

constexpr std::int64_t steps_of_run = 30;

class ResumedPruning : public testing::TestWithParam<std::tuple<std::size_t, std::int64_t>> {};

// design.md 4: what a criterion, a moving mask or a rewound network keeps between steps is in the checkpoint.
TEST_P(ResumedPruning, GivesTheFileOfTheUnbrokenRun) {
  const StatefulPruning pruning = stateful_prunings().at(std::get<0>(GetParam()));
  const std::int64_t stop = std::get<1>(GetParam());
  const Recipe recipe = recipe_of(pruning.prune);
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "checkpoint";
  TrainingRun whole(31, "SGD", 0.02, 1e-2, recipe);
  whole.train(stop);
  whole.compressor->save_checkpoint(path);
  whole.train(steps_of_run - stop);
  const std::vector<std::byte> expected = encode(whole.compressor->convert());

  TrainingRun resumed(99, "SGD", 0.7, 0.5, recipe);
  resumed.train(stop % 4);
  resumed.resume(path, stop);
  resumed.train(steps_of_run - stop);
  EXPECT_EQ(encode(resumed.compressor->convert()), expected);
}

INSTANTIATE_TEST_SUITE_P(All, ResumedPruning,
                         testing::Combine(testing::Range(std::size_t{0}, stateful_prunings().size()),
                                          testing::Values(0, 3, 7, 9, 11, 13, 16, 21, 25, 29)),
                         [](const auto& parameter) {
                           return stateful_prunings().at(std::get<0>(parameter.param)).name + "At" +
                                  std::to_string(std::get<1>(parameter.param));
                         });

TEST(PruningCheckpoint, WithScoresOrASnapshotThatDoNotFitIsRefusedAndChangesNothing) {
  const std::vector<StatefulPruning> prunings = stateful_prunings();
  const auto check = [](const PruneRecipe& prune, const std::string& part, const std::string& tensor,
                        const c10::IValue& value) {
    const test::TemporaryFolder folder;
    const std::filesystem::path path = folder.path() / "checkpoint";
    TrainingRun run(31, "SGD", 0.02, 1e-2, recipe_of(prune));
    run.train(8);
    run.compressor->save_checkpoint(path);
    test::tamper(path, [&](torch::jit::Module& archive) { archive.attr(part).toModule().setattr(tensor, value); });
    const torch::Tensor before = run.model->tensor("conv1.weight").detach().clone();
    EXPECT_NE(test::refusal_of([&] { run.compressor->load_checkpoint(path); }), "") << part << ' ' << tensor;
    EXPECT_TRUE(test::same_bits(run.model->tensor("conv1.weight"), before));
  };
  check(prunings.at(0).prune, "gathered_scores", "name0", std::string("norm0.weight"));
  check(prunings.at(0).prune, "gathered_scores", "tensor0", torch::zeros({3}));
  check(prunings.at(0).prune, "gathered_scores", "tensor0", torch::zeros({4, 8}, torch::kDouble));
  check(prunings.at(8).prune, "snapshot", "name0", std::string("nobody"));
  check(prunings.at(8).prune, "snapshot", "tensor0", torch::zeros({3}));
  check(prunings.at(8).prune, "snapshot", "count", std::int64_t{2});
}

}  // namespace
}  // namespace podaq
