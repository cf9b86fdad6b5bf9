#include "podaq/study/trainer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <csignal>
#include <cstdint>
#include <memory>

#include "compress/network_builder.h"
#include "podaq/core/cancellation.h"
#include "podaq/core/error.h"
#include "podaq/format/file.h"

namespace podaq {
namespace {

// Labels say which half of the first channel is louder.
Dataset loud_halves(std::int64_t count, std::uint64_t seed) {
  torch::manual_seed(seed);
  torch::Tensor samples = torch::randn({count, 2, 16});
  const torch::Tensor labels = torch::randint(2, {count}, torch::kInt);
  samples.select(1, 0).slice(1, 0, 8).mul_(1 + 3 * labels.unsqueeze(1));
  const auto* numbers = samples.const_data_ptr<float>();
  const auto* classes = labels.const_data_ptr<std::int32_t>();
  return {.sample_shape = {2, 16},
          .samples = {numbers, numbers + samples.numel()},
          .labels = {classes, classes + count},
          .class_names = {"quiet", "loud", "unused", "also unused"}};
}

TEST(Train, CancelledWhileItValidatesAnAverageLeavesTheNetworksOwnNumbers) {
  std::signal(SIGINT, SIG_DFL);  // which background shells ignore
  const auto model = test::small_classifier();
  Compressor compressor(model, {.epochs = {.dense = 1}, .average = AverageRecipe{.decay = 0.9}});
  const Dataset data = loud_halves(64, 3);
  torch::Tensor last;
  const auto at_the_last_step = [&, step = 0]() mutable {
    if (++step < 4) return;
    last = model->tensor("conv1.weight").detach().clone();
    std::raise(SIGINT);
  };
  const CancellationScope cancellation;
  try {
    train(*model, &compressor, data, data, {.epochs = 1, .batch_size = 16, .warm_up_epochs = 0},
          {.after_step = at_the_last_step});
    FAIL() << "train ended in spite of the signal";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::cancelled);
  }
  EXPECT_TRUE(model->tensor("conv1.weight").equal(last));
}

TEST(Train, LetsGoOfTheOptimizerThatItMade) {
  const auto model = test::small_classifier();
  Compressor compressor(model, {.epochs = {.prune = 1}, .prune = PruneRecipe{.sparsity = 0.5}});
  const Dataset data = loud_halves(64, 4);
  train(*model, &compressor, data, data, {.epochs = 1, .batch_size = 16, .warm_up_epochs = 0});
  EXPECT_NO_THROW((void)encode(compressor.convert()));
  EXPECT_THROW(compressor.step(), Error);
  EXPECT_THROW(compressor.end_epoch(), Error);
  EXPECT_THROW(compressor.save_checkpoint("/nowhere"), Error);
}

}  // namespace
}  // namespace podaq
