// The recipe's [average]: conversion takes the averaged weights, whose pruned ones are 0, and checkpoints hold them.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstddef>
#include <string>
#include <vector>

#include "compress/conversion.h"
#include "compress/training_run.h"
#include "podaq/core/error.h"
#include "podaq/format/file.h"
#include "support/temporary_folder.h"

namespace podaq {
namespace {

using test::TrainingRun;

Recipe averaging_recipe() {
  Recipe recipe = test::full_recipe();
  recipe.average = AverageRecipe{.decay = 0.8};
  return recipe;
}

TEST(Average, ConversionTakesItAndLeavesTheNetworkAsItWas) {
  TrainingRun run(31, "SGD", 0.05, 0, averaging_recipe());
  run.train(30);
  const torch::Tensor last = run.model->tensor("conv1.weight").detach().clone();
  const Graph averaged = run.compressor->convert();
  EXPECT_TRUE(torch::equal(run.model->tensor("conv1.weight"), last));

  run.compressor->swap_average();
  EXPECT_FALSE(torch::equal(run.model->tensor("conv1.weight"), last));
  EXPECT_EQ(encode(run.compressor->convert()), encode(averaged)) << "swapped in already";
  EXPECT_TRUE(torch::equal(run.model->tensor("conv1.weight").detach() == 0, last == 0)) << "masked means zero";
  EXPECT_THROW(run.compressor->save_checkpoint("/nowhere"), Error);
  run.compressor->swap_average();
  EXPECT_TRUE(torch::equal(run.model->tensor("conv1.weight"), last));

  TrainingRun plain(31, "SGD", 0.05, 0);
  plain.train(30);
  EXPECT_NE(encode(plain.compressor->convert()), encode(averaged));
}

TEST(Average, TrainingRefusesToGoOnWhileItIsSwappedIn) {
  TrainingRun run(31, "SGD", 0.05, 0, averaging_recipe());
  run.train(12);
  run.compressor->swap_average();
  EXPECT_THROW(run.step(), Error);
  EXPECT_THROW(run.compressor->end_epoch(), Error);
  EXPECT_THROW(run.compressor->attach(*run.optimizer, {.steps_per_epoch = TrainingRun::steps_per_epoch}), Error);
}

TEST(Average, CalibrationWorksOnItAndConversionTakesWhatThatMade) {
  for (const bool is_swapped_in : {false, true}) {
    TrainingRun run(31, "SGD", 0.05, 0,
                    {.epochs = {.dense = 2},
                     .quantize = QuantizeRecipe{.post_training = PostTrainingRecipe{.bias_correction = true}},
                     .average = AverageRecipe{.decay = 0.8}});
    run.train(10);
    run.compressor->swap_average();
    const torch::Tensor weight = run.model->tensor("conv1.weight").detach().clone();
    const torch::Tensor bias = run.model->tensor("classifier.bias").detach().clone();
    if (!is_swapped_in) run.compressor->swap_average();
    const std::vector<torch::Tensor> batches = {run.data.samples};
    run.compressor->calibrate(batches);
    EXPECT_TRUE(run.model->tensor("conv1.weight").equal(weight));
    EXPECT_FALSE(run.model->tensor("classifier.bias").equal(bias));
    test::expect_agreement(run.model, *run.compressor);
    const std::vector<std::byte> file = encode(run.compressor->convert());
    run.compressor->swap_average();
    EXPECT_EQ(encode(run.compressor->convert()), file);
  }
}

TEST(Average, ResumesToTheSameFile) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "checkpoint";
  for (const std::int64_t stop : {8, 17, 23}) {
    TrainingRun whole(31, "Adam", 0.01, 1e-2, averaging_recipe());
    whole.train(stop);
    whole.compressor->save_checkpoint(path);
    whole.train(30 - stop);
    TrainingRun resumed(99, "Adam", 0.7, 0.5, averaging_recipe());
    resumed.resume(path, stop);
    resumed.train(30 - stop);
    EXPECT_EQ(encode(resumed.compressor->convert()), encode(whole.compressor->convert())) << stop;
  }
}

TEST(Average, ACheckpointKnowsItsTeacher) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "checkpoint";
  TrainingRun first(31, "SGD", 0.05, 0);
  first.compressor->attach(*first.optimizer, *first.sampler,
                           {.steps_per_epoch = TrainingRun::steps_per_epoch, .teacher = "one"});
  first.train(3);
  first.compressor->save_checkpoint(path);
  TrainingRun second(31, "SGD", 0.05, 0);
  try {
    second.compressor->load_checkpoint(path);
    ADD_FAILURE() << "took another teacher";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("another teacher"), std::string::npos) << error.what();
  }
  second.compressor->attach(*second.optimizer, *second.sampler,
                            {.steps_per_epoch = TrainingRun::steps_per_epoch, .teacher = "one"});
  EXPECT_NO_THROW(second.compressor->load_checkpoint(path));
}

TEST(AverageRecipe, IsReadWrittenAndRefusedByName) {
  const Recipe recipe = Recipe::parse("[epochs]\ndense = 1\n[average]\ndecay = 0.99\n");
  ASSERT_TRUE(recipe.average);
  EXPECT_EQ(recipe.average->decay, 0.99);
  EXPECT_EQ(to_toml(Recipe::parse(to_toml(recipe))), to_toml(recipe));
  try {
    (void)Recipe::parse("[epochs]\ndense = 1\n[average]\ndecay = 1.0\n");
    ADD_FAILURE() << "took a decay of 1";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("average.decay is 1, must lie in [0, 1)"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace podaq
