// A training that stops after any epoch and goes on from its checkpoint ends with the network of the unbroken one.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>

#include "podaq/core/error.h"
#include "podaq/format/file.h"
#include "podaq/study/trainer.h"
#include "study/small_task.h"
#include "support/temporary_folder.h"

namespace podaq {
namespace {

struct ResumedCase {
  std::string name;
  std::string recipe;
  bool distilled = false;
};

class ResumedTraining : public testing::TestWithParam<ResumedCase> {
 protected:
  struct Outcome {
    std::vector<std::byte> file;
    TrainResult result;
  };

  // Trains as far as `stop_after` steps of this life, or to the end.
  Outcome train_with(const std::filesystem::path& checkpoint, std::optional<int> stop_after) const {
    const Task task = test::small_task();
    const Recipe recipe = Recipe::parse(GetParam().recipe);
    const std::shared_ptr<GraphModule> model = task.make_network(3).captured;
    model->set_generator(at::make_generator<at::CPUGeneratorImpl>(17));
    Compressor compressor(model, recipe);
    TrainOptions options = task.training;
    options.epochs = static_cast<double>(whole_epochs(recipe));
    TrainSupport support{.checkpoint = checkpoint};
    support.after_step = [stop_after, step = 0]() mutable {
      if (stop_after && ++step == *stop_after) throw std::runtime_error("stopped");
    };
    if (GetParam().distilled)
      support.soft_targets = {.logits = torch::ones({data_.size(), 3}).tril(), .teacher = "some hash"};
    Outcome outcome;
    outcome.result = train(*model, &compressor, data_, validation_, options, support);
    outcome.file = encode(compressor.convert());
    return outcome;
  }

  const Dataset data_ = test::waveforms(96, 5);
  const Dataset validation_ = test::waveforms(60, 6);
  test::TemporaryFolder folder_;
};

TEST_P(ResumedTraining, EndsWithTheNetworkOfTheUnbrokenOne) {
  constexpr int steps = 96 / 32;  // of an epoch
  const Outcome unbroken = train_with("", std::nullopt);
  const auto epochs = static_cast<std::int64_t>(unbroken.result.validation_accuracy.size());
  const std::filesystem::path checkpoint = folder_.path() / "checkpoint";
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {  // each life gets through one epoch, and into the next
    EXPECT_EQ(trained_epochs(checkpoint), epoch);
    if (epoch + 1 == epochs) break;
    EXPECT_THROW(static_cast<void>(train_with(checkpoint, steps + 1)), std::runtime_error);
  }
  const Outcome resumed = train_with(checkpoint, std::nullopt);
  EXPECT_EQ(resumed.file, unbroken.file);
  EXPECT_EQ(resumed.result.validation_accuracy, unbroken.result.validation_accuracy);
  EXPECT_EQ(resumed.result.chosen_epoch, unbroken.result.chosen_epoch);
  EXPECT_EQ(resumed.result.steps, epochs * steps);
  // Of the finished training nothing is left to do.
  EXPECT_EQ(train_with(checkpoint, 1).file, unbroken.file);
}

INSTANTIATE_TEST_SUITE_P(
    Recipes, ResumedTraining,
    testing::Values(ResumedCase{"Dense", "[epochs]\ndense = 3\n"},
                    ResumedCase{"Distilled", "[epochs]\ndense = 3\n", true},
                    ResumedCase{"PruneQuantize",
                                "[epochs]\nprune = 1\nrecover = 1\nquantize = 1\nfreeze_batch_norm = 1\n"
                                "freeze_observers = 2\n[prune]\nsparsity = 0.6\n[quantize]\n"},
                    ResumedCase{"Channels",
                                "[epochs]\nprune = 1\nrecover = 3\n[prune]\nsparsity = 0.5\n"
                                "pattern = \"channels\"\n"},
                    ResumedCase{"Average", "[epochs]\ndense = 3\n[average]\ndecay = 0.9\n"},
                    ResumedCase{"Goldbarg", "[epochs]\ngoldbarg = 3\n[goldbarg]\nalpha = 0.5\nbits = 4\n"}),
    [](const auto& tested) { return tested.param.name; });

class TrainingState : public testing::Test {
 protected:
  TrainResult train_for(const TrainOptions& options, const std::string& teacher = "") const {
    const std::shared_ptr<GraphModule> model = test::small_task().make_network(3).captured;
    Compressor compressor(model, Recipe::parse("[epochs]\ndense = 1\n"));
    TrainSupport support{.checkpoint = folder_.path() / "checkpoint"};
    if (!teacher.empty()) support.soft_targets = {.logits = torch::zeros({64, 3}), .teacher = teacher};
    return train(*model, &compressor, data_, data_, options, support);
  }

  const Dataset data_ = test::waveforms(64, 5);
  const TrainOptions options_ = {.epochs = 1, .batch_size = 32, .warm_up_epochs = 0};
  test::TemporaryFolder folder_;
};

TEST_F(TrainingState, IsRefusedByATrainingOfOtherOptions) {
  static_cast<void>(train_for(options_));
  TrainOptions others = options_;
  others.learning_rate *= 2;
  EXPECT_THROW(static_cast<void>(train_for(others)), Error);
  EXPECT_THROW(static_cast<void>(train_for(options_, "a teacher")), Error);
  EXPECT_NO_THROW(static_cast<void>(train_for(options_)));
}

TEST_F(TrainingState, IsRefusedWhereItIsDamaged) {
  static_cast<void>(train_for(options_));
  const std::filesystem::path file = folder_.path() / "checkpoint" / "training";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  EXPECT_THROW(static_cast<void>(train_for(options_)), Error);
  EXPECT_THROW(static_cast<void>(trained_epochs(folder_.path() / "checkpoint")), Error);
}

TEST_F(TrainingState, NeedsACompressor) {
  const std::shared_ptr<GraphModule> model = test::small_task().make_network(3).captured;
  EXPECT_THROW(static_cast<void>(train(*model, nullptr, data_, data_, options_, {.checkpoint = folder_.path()})),
               Error);
}

}  // namespace
}  // namespace podaq
