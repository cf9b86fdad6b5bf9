#include "podaq/prune/regrowth.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

#include "compress/network_builder.h"
#include "podaq/prune/pruner.h"
#include "podaq/prune/selection.h"

namespace podaq {
namespace {

torch::Tensor bits(const std::vector<int>& values) {
  return torch::tensor(values).to(torch::kBool);
}

TEST(Regrowth, FallsAlongHalfACosine) {
  const Regrowth regrowth{.every = 10, .fraction = 0.4};
  const SparsitySchedule schedule{.begin = 100, .end = 200};
  EXPECT_EQ(regrow_fraction_at(regrowth, schedule, 99), 0);
  EXPECT_DOUBLE_EQ(regrow_fraction_at(regrowth, schedule, 100), 0.4);
  EXPECT_DOUBLE_EQ(regrow_fraction_at(regrowth, schedule, 150), 0.2);
  EXPECT_EQ(regrow_fraction_at(regrowth, schedule, 200), 0);
}

TEST(Regrowth, DropsTheLowestScoresAndTakesBackTheLargestGradients) {
  const torch::Tensor pruned = bits({1, 1, 1, 0, 0, 0, 0});
  const torch::Tensor scores = torch::tensor({0.0F, 0.0F, 0.0F, 3.0F, 1.0F, 1.0F, 9.0F});
  const torch::Tensor gradient = torch::tensor({1.0F, 5.0F, 2.0F, 99.0F, 99.0F, 99.0F, 99.0F});
  EXPECT_TRUE(regrown_units(pruned, scores, gradient, 0.25).equal(bits({1, 0, 1, 0, 1, 0, 0})));
  EXPECT_TRUE(regrown_units(pruned, scores, gradient, 0.5).equal(bits({1, 0, 0, 0, 1, 1, 0})));
  EXPECT_TRUE(regrown_units(pruned, scores, gradient, 0.2).equal(pruned)) << "less than one unit";
  EXPECT_TRUE(regrown_units(pruned, scores, gradient, 1.0).equal(bits({0, 0, 0, 1, 1, 1, 0})));
  EXPECT_TRUE(regrown_units(bits({0, 0}), torch::ones({2}), torch::ones({2}), 1.0).equal(bits({0, 0})));
}

TEST(Regrowth, TakesNanGradientsForZero) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const torch::Tensor after =
      regrown_units(bits({1, 1, 0, 0}), torch::ones({4}), torch::tensor({nan, 0.5F, nan, nan}), 0.5);
  EXPECT_TRUE(after.equal(bits({1, 0, 1, 0})));
}

class RegrowingMasks : public testing::TestWithParam<Pattern> {};

TEST_P(RegrowingMasks, MoveWhileTheRampLastsKeepExactCountsAndStartAtZeroWithoutMomentum) {
  torch::manual_seed(14);
  const auto model = test::small_classifier();
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  const WeightedLayer layer = weighted_layers(model->graph()).at(1);
  Pruner pruner(*model, {{.layers = {layer}, .sparsity = 0.5}},
                {.pattern = GetParam(),
                 .schedule = {.kind = ScheduleKind::constant, .begin = 0, .end = 12},
                 .regrowth = Regrowth{.every = 3, .fraction = 0.5}});
  const torch::Tensor weight = model->tensor(layer.weight);
  const std::int64_t units = count_units(GetParam(), weight.sizes(), 1);
  int moves = 0;
  torch::Tensor before;
  model->train();
  pruner.update(*model, optimizer, 0);
  for (std::int64_t step = 1; step <= 16; ++step) {
    optimizer.zero_grad();
    torch::nn::functional::cross_entropy(model->forward(torch::randn({16, 2, 16})),
                                         torch::randint(4, {16}, torch::kLong))
        .backward();
    optimizer.step();
    EXPECT_GT(weight.grad().masked_select(pruner.masks().at(layer.weight)).abs().sum().item<double>(), 0)
        << "masked weights have gradients";
    pruner.gather(*model, step);
    pruner.update(*model, optimizer, step);
    const torch::Tensor mask = pruner.masks().at(layer.weight);
    EXPECT_EQ(count_pruned(units_of_mask(GetParam(), mask, 1)), zeros_at(0.5, units));
    EXPECT_TRUE(weight.masked_select(mask).eq(0).all().item<bool>());
    if (before.defined() && !before.equal(mask)) {
      ++moves;
      EXPECT_EQ(step % 3, 0);
      EXPECT_LT(step, 12);
      const torch::Tensor returned = before.logical_and(mask.logical_not());
      EXPECT_TRUE(weight.masked_select(returned).eq(0).all().item<bool>());
      const auto& state =
          static_cast<torch::optim::SGDParamState&>(*optimizer.state().at(weight.unsafeGetTensorImpl()));
      EXPECT_TRUE(state.momentum_buffer().masked_select(returned).eq(0).all().item<bool>());
      EXPECT_GT(state.momentum_buffer().masked_select(returned.logical_not()).abs().sum().item<double>(), 0);
    }
    before = mask;
  }
  EXPECT_GE(moves, 2);
}

INSTANTIATE_TEST_SUITE_P(Patterns, RegrowingMasks,
                         testing::Values(Pattern(UnstructuredPattern()), Pattern(BlockPattern())));

}  // namespace
}  // namespace podaq
