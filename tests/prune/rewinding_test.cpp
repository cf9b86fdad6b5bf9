#include "podaq/prune/rewinding.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "compress/network_builder.h"
#include "podaq/prune/pruner.h"

namespace podaq {
namespace {

// arXiv 1803.03635, 1903.01611: survivors return to what they were, the rest is zero.
TEST(Rewinding, PutsSurvivorsBackAfterEachRoundAndStartsTheOptimizerAnew) {
  torch::manual_seed(15);
  const auto model = test::small_classifier();
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  std::vector<PruneGroup> groups;
  for (const WeightedLayer& layer : weighted_layers(model->graph()))
    groups.push_back({.layers = {layer}, .sparsity = 0.75});
  Pruner pruner(*model, groups,
                {.schedule = {.kind = ScheduleKind::iterative, .begin = 0, .end = 12, .rounds = 3}, .rewind_step = 2});
  NetworkSnapshot early;
  model->train();
  pruner.update(*model, optimizer, 0);
  for (std::int64_t step = 1; step <= 14; ++step) {
    optimizer.zero_grad();
    torch::nn::functional::cross_entropy(model->forward(torch::randn({16, 2, 16})),
                                         torch::randint(4, {16}, torch::kLong))
        .backward();
    optimizer.step();
    pruner.update(*model, optimizer, step);
    if (step == 2) early = take_snapshot(*model);
    const bool is_round = step == 4 || step == 8 || step == 12;
    EXPECT_EQ(optimizer.state().empty(), is_round) << step;
    EXPECT_EQ(pruner.state().snapshot.empty(), step < 2 || step >= 12) << step;
    if (!is_round) continue;
    for (const auto& [name, tensor] : early) {
      torch::Tensor expected = tensor.clone();
      if (const auto mask = pruner.masks().find(name); mask != pruner.masks().end())
        expected.masked_fill_(mask->second, 0);
      EXPECT_TRUE(test::same_bits(model->tensor(name), expected)) << name << " after step " << step;
    }
  }
}

}  // namespace
}  // namespace podaq
