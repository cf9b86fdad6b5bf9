#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

#include "compress/network_builder.h"
#include "podaq/prune/pruner.h"
#include "podaq/prune/selection.h"

namespace podaq {
namespace {

// Odd channel counts, grouped and depthwise convolutions, an all-zero layer, ties, NaN, and layers of 3 and 1 weights.
std::shared_ptr<GraphModule> awkward_network() {
  test::NetworkBuilder net(17);
  ValueId x = net.input("input", {6, 8});
  x = net.batch_norm(net.conv(x, "plain", 10, 3), "norm0");
  x = net.batch_norm(net.conv(x, "grouped", 6, 1, true, 2), "norm1");
  x = net.batch_norm(net.conv(x, "depthwise", 6, 3, true, 6), "norm2");
  x = net.batch_norm(net.conv(x, "odd", 7, 1), "norm3");
  x = net.apply(GlobalMean{}, "mean", {x});
  x = net.linear(net.linear(net.linear(x, "head", 3), "narrow", 1), "single", 1);
  const auto model = net.build({x});
  const torch::NoGradGuard no_grad;
  model->tensor("odd.weight").zero_();
  model->tensor("grouped.weight").mul_(2).round_().div_(2);
  model->tensor("plain.weight")[3][2][1].fill_(std::numeric_limits<float>::quiet_NaN());
  return model;
}

// What an optimizer might do to all weights, masked ones too.
void disturb(const GraphModule& model) {
  const torch::NoGradGuard no_grad;
  for (const WeightedLayer& layer : weighted_layers(model.graph())) {
    torch::Tensor weight = model.tensor(layer.weight);
    weight.mutable_grad() = torch::randn_like(weight);
    if (layer.name != "odd") weight.add_(torch::randn_like(weight), 0.02);
  }
}

struct Combination {
  Criterion criterion;
  Pattern pattern;
  ScheduleKind schedule;
  bool is_global;
};

std::vector<Combination> all_combinations() {
  const std::vector<Criterion> criteria = {
      MagnitudeL1{},
      MagnitudeL2{},
      Taylor{},
      Movement{},
      Lamp{},
      RandomScore{.seed = 3},
      CustomScore{.name = "equal",
                  .score = [](const auto&, const auto& weight, const auto&) { return torch::ones_like(weight); }}};
  const std::vector<Pattern> patterns = {UnstructuredPattern{},       NOfMPattern{.n = 2, .m = 4},
                                         NOfMPattern{.n = 1, .m = 3}, BlockPattern{4, 1},
                                         BlockPattern{1, 4},          BlockPattern{3, 2}};
  std::vector<Combination> combinations;
  for (const Criterion& criterion : criteria)
    for (const Pattern& pattern : patterns)
      for (const ScheduleKind schedule : {ScheduleKind::constant, ScheduleKind::one_shot, ScheduleKind::linear,
                                          ScheduleKind::cubic, ScheduleKind::exponential, ScheduleKind::iterative})
        for (const bool is_global : {false, true}) {
          if (!problem_with(criterion, pattern).empty()) continue;
          if (gathers(criterion) && schedule == ScheduleKind::constant) continue;
          if (is_global && std::holds_alternative<NOfMPattern>(pattern)) continue;
          combinations.push_back({criterion, pattern, schedule, is_global});
        }
  return combinations;
}

std::vector<PruneGroup> groups_of(const GraphModule& model, const Combination& combination, double sparsity) {
  PruneGroup pool{.layers = {}, .sparsity = sparsity};
  std::vector<PruneGroup> groups;
  for (const WeightedLayer& layer : weighted_layers(model.graph())) {
    if (!problem_with(combination.criterion, model, layer).empty()) continue;
    pool.layers.push_back(layer);
    groups.push_back({.layers = {layer}, .sparsity = sparsity});
  }
  return combination.is_global ? std::vector{pool} : groups;
}

std::int64_t expected_units(const GraphModule& model, const PruneGroup& group, const Pattern& pattern,
                            double sparsity) {
  std::int64_t units = 0;
  std::int64_t prunable = 0;
  for (const WeightedLayer& layer : group.layers) {
    units += count_units(pattern, model.tensor(layer.weight).sizes(), layer.groups);
    prunable += count_prunable_units(pattern, model.tensor(layer.weight).sizes(), layer.groups);
  }
  return std::min(zeros_at(sparsity, units, std::ssize(group.layers)), prunable);
}

// At most n nonzeros in each run of m inputs, for each output and tap.
void expect_n_of_m(const NOfMPattern& pattern, const torch::Tensor& mask) {
  const torch::Tensor kept = mask.logical_not().reshape({mask.size(0), mask.size(1), -1}).to(torch::kLong);
  for (std::int64_t first = 0; first < kept.size(1); first += pattern.m)
    EXPECT_LE(kept.slice(1, first, first + pattern.m).sum(1).max().item<std::int64_t>(), pattern.n);
}

class EveryPruning : public testing::TestWithParam<double> {};

// design.md 4: exact counts, no empty layer, masked means zero, fixed masks only grow; C25 for blocks too (channels:
// channel_pruning_test).
TEST_P(EveryPruning, HasExactCountsZerosInTheStoredWeightsAndNoEmptyLayer) {
  torch::manual_seed(12);
  for (const Combination& combination : all_combinations()) {
    const auto model = awkward_network();
    torch::optim::SGD optimizer(model->parameters(), 0.01);
    const std::vector<PruneGroup> groups = groups_of(*model, combination, GetParam());
    SparsitySchedule schedule{.kind = combination.schedule, .begin = 1, .end = 7, .update_every = 2, .rounds = 3};
    Pruner pruner(*model, groups,
                  {.criterion = combination.criterion, .pattern = combination.pattern, .schedule = schedule});
    schedule.final_sparsity = GetParam();
    Masks before;
    for (std::int64_t step = 0; step <= 9; ++step) {
      SCOPED_TRACE(testing::Message() << name_of(combination.criterion) << ' ' << name_of(combination.pattern)
                                      << " schedule " << static_cast<int>(combination.schedule) << " global "
                                      << combination.is_global << " step " << step);
      disturb(*model);
      pruner.gather(*model, step);
      pruner.update(*model, optimizer, step);
      for (const PruneGroup& group : groups) {
        std::int64_t pruned = 0;
        for (const WeightedLayer& layer : group.layers) {
          if (!pruner.masks().contains(layer.weight)) continue;
          const torch::Tensor& mask = pruner.masks().at(layer.weight);
          const torch::Tensor weight = model->tensor(layer.weight).detach();
          const torch::Tensor units = units_of_mask(combination.pattern, mask, layer.groups);
          pruned += count_pruned(units);
          EXPECT_FALSE(mask.all().item<bool>()) << layer.name << " is empty";
          EXPECT_TRUE(mask_of_units(combination.pattern, units, weight.sizes(), layer.groups).equal(mask))
              << layer.name;
          EXPECT_TRUE(weight.masked_select(mask).eq(0).all().item<bool>()) << layer.name;
          if (const auto earlier = before.find(layer.weight); earlier != before.end()) {
            EXPECT_FALSE(earlier->second.logical_and(mask.logical_not()).any().item<bool>()) << layer.name;
          }
        }
        EXPECT_EQ(pruned, step < schedule.begin
                              ? 0
                              : expected_units(*model, group, combination.pattern, sparsity_at(schedule, step)))
            << group.layers[0].name;
      }
      before = pruner.masks();
    }
    if (const auto* n_of_m = std::get_if<NOfMPattern>(&combination.pattern); n_of_m != nullptr && GetParam() > 0.9)
      for (const auto& [name, mask] : pruner.masks()) expect_n_of_m(*n_of_m, mask);
  }
}

INSTANTIATE_TEST_SUITE_P(Sparsities, EveryPruning, testing::Values(0.0, 1e-9, 0.001, 0.5, 0.75, 0.999));

TEST(DeviationThresholdPruning, FollowsTheWeightsUntilTheScheduleEndsAndStaysThen) {
  torch::manual_seed(13);
  const auto model = test::small_classifier();
  torch::optim::SGD optimizer(model->parameters(), 0.01);
  std::vector<PruneGroup> groups;
  for (const WeightedLayer& layer : weighted_layers(model->graph()))
    groups.push_back({.layers = {layer}, .sparsity = 0});
  Pruner pruner(*model, groups,
                {.criterion = DeviationThreshold{.alpha = 0.75},
                 .schedule = {.kind = ScheduleKind::constant, .begin = 0, .end = 4}});
  bool has_come_back = false;
  Masks before;
  for (std::int64_t step = 0; step <= 8; ++step) {
    const torch::NoGradGuard no_grad;
    for (const PruneGroup& group : groups) {
      torch::Tensor weight = model->tensor(group.layers[0].weight);
      weight.add_(torch::randn_like(weight), 0.1);
    }
    const torch::Tensor weight = model->tensor("conv1.weight");
    const torch::Tensor expected = threshold_mask(weight, deviation_threshold(weight, 0.75));
    pruner.update(*model, optimizer, step);
    const torch::Tensor mask = pruner.masks().at("conv1.weight");
    if (step <= 4) {
      EXPECT_TRUE(mask.equal(expected)) << step;
    }
    if (before.contains("conv1.weight")) {
      const torch::Tensor earlier = before.at("conv1.weight");
      has_come_back = has_come_back || earlier.logical_and(mask.logical_not()).any().item<bool>();
      if (step > 4) {
        EXPECT_TRUE(mask.equal(earlier)) << step;
      }
    }
    EXPECT_TRUE(model->tensor("conv1.weight").masked_select(mask).eq(0).all().item<bool>());
    before = pruner.masks();
    pruner.update(*model, optimizer, step);
    EXPECT_TRUE(pruner.masks().at("conv1.weight").equal(mask)) << "a second call for the same step changes nothing";
  }
  EXPECT_TRUE(has_come_back);
}

}  // namespace
}  // namespace podaq
