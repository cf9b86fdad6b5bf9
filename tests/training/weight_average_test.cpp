#include "podaq/training/weight_average.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "podaq/core/error.h"
#include "training/small_net.h"

namespace podaq {
namespace {

void add_to_all(const GraphModule& model, double number) {
  const torch::NoGradGuard no_grad;
  for (torch::Tensor& parameter : model.parameters()) parameter.add_(number);
}

TEST(WeightAverage, IsTheRecursionThatItSays) {
  const auto model = testing::trained_pair().captured;
  WeightAverage average(0.9);
  torch::Tensor expected = model->tensor("hidden.weight").detach().clone();
  average.update(*model);
  for (int step = 0; step < 4; ++step) {
    add_to_all(*model, 0.5);
    average.update(*model);
    expected = expected + 0.1 * (model->tensor("hidden.weight").detach() - expected);
  }
  EXPECT_TRUE(torch::allclose(average.tensors().at("hidden.weight"), expected));
}

TEST(WeightAverage, SwapsForthAndBackBitForBit) {
  const auto model = testing::trained_pair().captured;
  WeightAverage average(0.5);
  average.update(*model);
  const torch::Tensor first = model->tensor("conv1.weight").detach().clone();
  const torch::Tensor statistics = model->tensor("norm1.running_mean").clone();
  add_to_all(*model, 1.0);
  model->tensor("norm1.running_mean").add_(2.0);
  const torch::Tensor second = model->tensor("conv1.weight").detach().clone();
  average.swap(*model);
  EXPECT_TRUE(torch::equal(model->tensor("conv1.weight"), first));
  EXPECT_TRUE(torch::equal(model->tensor("norm1.running_mean"), statistics));
  average.swap(*model);
  EXPECT_TRUE(torch::equal(model->tensor("conv1.weight"), second));
  EXPECT_TRUE(torch::equal(average.tensors().at("conv1.weight"), first));
}

TEST(WeightAverage, KeepsZerosThatWereAlwaysZero) {
  const auto model = testing::trained_pair().captured;
  const auto zero_first = [&] {
    const torch::NoGradGuard no_grad;
    model->tensor("hidden.weight")[0].zero_();
  };
  WeightAverage average(0.99);
  for (int step = 0; step < 5; ++step) {
    add_to_all(*model, 0.1);
    zero_first();
    average.update(*model);
  }
  EXPECT_EQ(average.tensors().at("hidden.weight")[0].abs().max().item<float>(), 0.0F);
}

TEST(WeightAverage, RefusesADecayOutsideItsRange) {
  for (const double decay : {-0.1, 1.0, 2.0}) EXPECT_THROW(WeightAverage{decay}, Error) << decay;
}

}  // namespace
}  // namespace podaq
