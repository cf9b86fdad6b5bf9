#include <gtest/gtest.h>
#include <torch/torch.h>

#include "podaq/core/error.h"
#include "podaq/numerics/activations.h"
#include "podaq/prune/channel_removal.h"
#include "podaq/prune/channel_sets.h"
#include "podaq/prune/pruner.h"
#include "podaq/prune/selection.h"
#include "prune/channel_networks.h"

namespace podaq {
namespace {

PruneGroup all_layers(const GraphModule& model, double sparsity) {
  return {.layers = weighted_layers(model.graph()), .sparsity = sparsity};
}

std::int64_t count_channels_of(const PrunableChannels& channels) {
  std::int64_t count = 0;
  for (const ChannelSet& set : channels.sets) count += std::ssize(set.groups);
  return count;
}

const ChannelSet* set_with(const PrunableChannels& channels, const std::string& layer) {
  for (const ChannelSet& set : channels.sets)
    if (std::ranges::find(set.layers, layer) != set.layers.end()) return &set;
  return nullptr;
}

TEST(PrunableChannels, TieResidualsAndLeaveOutOutputsAndWhatASigmoidMovesAwayFromZero) {
  test::NetworkBuilder net;
  const ValueId x = net.conv(net.input("input", {2, 8}), "first", 8, 3);
  const ValueId sum = net.apply(Add{}, "sum", {x, net.conv(net.relu(x, "relu"), "second", 8, 3)});
  const ValueId loud = net.apply(Activation{}, "sigmoid", {net.conv(sum, "loud", 6, 1)});
  const ValueId gated = net.apply(Mul{}, "gated", {net.conv(loud, "gate", 5, 1), net.conv(loud, "quiet", 5, 1)});
  const auto model = net.build({net.linear(net.apply(GlobalMean{}, "mean", {gated}), "head", 3)});
  const PrunableChannels channels = find_prunable_channels(model->graph());
  ASSERT_NE(set_with(channels, "first"), nullptr);
  EXPECT_EQ(set_with(channels, "first")->layers, (std::vector<std::string>{"first", "second"}));
  EXPECT_EQ(set_with(channels, "first")->groups.size(), 8U);
  EXPECT_EQ(set_with(channels, "loud"), nullptr);
  EXPECT_EQ(set_with(channels, "head"), nullptr);
  ASSERT_NE(set_with(channels, "gate"), nullptr);
  EXPECT_EQ(set_with(channels, "gate")->layers, (std::vector<std::string>{"gate", "quiet"}));
}

TEST(PrunableChannels, LieBehindEveryActivationThatKeepsZero) {
  for (const ActivationKind kind : {ActivationKind::leaky_relu, ActivationKind::elu, ActivationKind::silu,
                                    ActivationKind::gelu, ActivationKind::tanh, ActivationKind::sigmoid}) {
    test::NetworkBuilder net;
    const ValueId x = net.conv(net.input("input", {2, 8}), "first", 8, 3);
    const ValueId y = net.conv(net.apply(Activation{.kind = kind, .alpha = 0.5F}, "activation", {x}), "second", 4, 3);
    const auto model = net.build({net.linear(net.apply(GlobalMean{}, "mean", {y}), "head", 3)});
    const bool is_prunable = set_with(find_prunable_channels(model->graph()), "first") != nullptr;
    EXPECT_EQ(is_prunable, numerics::activate(kind, 0.5F, 0.0F) == 0) << static_cast<int>(kind);
    EXPECT_EQ(is_prunable, kind != ActivationKind::sigmoid) << static_cast<int>(kind);
  }
}

TEST(ChannelPruning, SumsTheScoresOfTiedLayers) {
  test::NetworkBuilder net;
  const ValueId x = net.conv(net.input("input", {1, 4}), "first", 3, 1, false);
  const ValueId sum = net.apply(Add{}, "sum", {x, net.conv(x, "second", 3, 1, false)});
  const auto model = net.build({net.linear(net.apply(GlobalMean{}, "mean", {sum}), "head", 2)});
  {
    const torch::NoGradGuard no_grad;
    model->tensor("first.weight").copy_(torch::tensor({1.0F, 5.0F, 3.0F}).reshape({3, 1, 1}));
    model->tensor("second.weight").copy_(torch::tensor({4.0F, 0.0F, 1.0F}).reshape({3, 1, 1}).expand({3, 3, 1}));
  }
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  Pruner pruner(*model, {all_layers(*model, 0.34)}, {.pattern = ChannelPattern{}});
  pruner.update(*model, optimizer, 0);  // sums: 13, 5, 6
  const torch::Tensor expected = torch::tensor({0, 1, 0}, torch::kBool);
  EXPECT_TRUE(pruner.masks().at("first.weight").flatten(1).all(1).equal(expected));
  EXPECT_TRUE(pruner.masks().at("second.weight").flatten(1).all(1).equal(expected));
}

class ChannelPruningOf : public testing::TestWithParam<int> {};

// design.md 4: exact counts, no value without a channel, masks only grow.
TEST_P(ChannelPruningOf, RandomNetworksHasExactCountsAndKeepsAChannelOfEachSet) {
  const std::vector<Criterion> criteria = {MagnitudeL1{}, Taylor{},          Movement{},
                                           Lamp{},        GeometricMedian{}, RandomScore{.seed = 3}};
  for (const Criterion& criterion : criteria)
    for (const double sparsity : {0.0, 0.4, 0.75, 0.999}) {
      const auto model = test::channel_network(static_cast<std::uint64_t>(GetParam()));
      torch::optim::SGD optimizer(model->parameters(), 0.01);
      const PrunableChannels channels = find_prunable_channels(model->graph());
      SparsitySchedule schedule{.kind = ScheduleKind::cubic, .begin = 1, .end = 6};
      Pruner pruner(*model, {all_layers(*model, sparsity)},
                    {.criterion = criterion, .pattern = ChannelPattern{}, .schedule = schedule});
      schedule.final_sparsity = sparsity;
      std::vector<bool> before(channels.groups.size(), false);
      for (std::int64_t step = 0; step <= 7; ++step) {
        for (torch::Tensor& parameter : optimizer.param_groups()[0].params()) {
          const torch::NoGradGuard no_grad;
          parameter.add_(torch::randn_like(parameter), 0.02);
          parameter.mutable_grad() = torch::randn_like(parameter);
        }
        pruner.gather(*model, step);
        pruner.update(*model, optimizer, step);
        const std::vector<bool> pruned = pruned_channels(model->graph(), channels, pruner.masks());
        for (std::size_t group = 0; group < pruned.size(); ++group) EXPECT_TRUE(!before[group] || pruned[group]);
        EXPECT_EQ(std::ranges::count(pruned, true),
                  step < schedule.begin
                      ? 0
                      : zeros_at(sparsity_at(schedule, step), count_channels_of(channels), std::ssize(channels.sets)));
        for (const ChannelSet& set : channels.sets)
          EXPECT_FALSE(std::ranges::all_of(set.groups, [&](std::size_t group) { return pruned[group]; }));
        before = pruned;
      }
    }
}

TEST_P(ChannelPruningOf, RandomNetworksLeavesMultiplesWhereAligned) {
  for (const std::int64_t align : {2, 4, 16}) {
    const auto model = test::channel_network(static_cast<std::uint64_t>(GetParam()));
    torch::optim::SGD optimizer(model->parameters(), 0.01);
    const PrunableChannels channels = find_prunable_channels(model->graph());
    Pruner pruner(*model, {all_layers(*model, 0.6)},
                  {.pattern = ChannelPattern{.align = align}, .schedule = {.begin = 0, .end = 4}});
    for (std::int64_t step = 0; step <= 4; ++step) {
      pruner.update(*model, optimizer, step);
      const std::vector<bool> pruned = pruned_channels(model->graph(), channels, pruner.masks());
      for (const ChannelSet& set : channels.sets) {
        const auto kept = std::ranges::count_if(set.groups, [&](std::size_t group) { return !pruned[group]; });
        EXPECT_TRUE(kept % align == 0 || kept == std::ssize(set.groups)) << kept << " of " << set.groups.size();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, ChannelPruningOf, testing::Range(0, 12));

TEST(ChannelPruning, LeavesChannelsThatALayerOfNoGroupComputesToo) {
  test::NetworkBuilder net;
  const ValueId x = net.conv(net.input("input", {2, 8}), "first", 8, 3);
  const ValueId sum = net.apply(Add{}, "sum", {x, net.conv(x, "second", 8, 3)});
  const auto model = net.build({net.linear(net.apply(GlobalMean{}, "mean", {sum}), "head", 3)});
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  Pruner pruner(*model, {{.layers = {weighted_layers(model->graph())[0]}, .sparsity = 0.5}},
                {.pattern = ChannelPattern{}});
  pruner.update(*model, optimizer, 0);
  for (const auto& [name, mask] : pruner.masks()) EXPECT_EQ(count_pruned(mask), 0) << name;
}

TEST(ChannelPruning, RefusesRegrowthAndRemovalBeforeItsEnd) {
  const auto model = test::channel_network(1);
  EXPECT_THROW(Pruner(*model, {all_layers(*model, 0.5)},
                      {.pattern = ChannelPattern{}, .schedule = {.begin = 0, .end = 9}, .regrowth = Regrowth{}}),
               Error);
  EXPECT_THROW(Pruner(*model, {all_layers(*model, 0.5)}, {.pattern = ChannelPattern{.align = 0}}), Error);
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  Pruner pruner(*model, {all_layers(*model, 0.5)}, {.pattern = ChannelPattern{}, .schedule = {.begin = 0, .end = 9}});
  pruner.update(*model, optimizer, 5);
  EXPECT_THROW(pruner.remove_channels(without_pruned_channels(*model, pruner.masks())), Error);
}

}  // namespace
}  // namespace podaq
