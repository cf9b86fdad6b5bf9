#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "compress/conversion.h"
#include "compress/network_builder.h"
#include "compress/refusals.h"
#include "compress/strategies.h"
#include "compress/training_run.h"
#include "podaq/compress/compressor.h"
#include "podaq/format/file.h"
#include "podaq/prune/channel_sets.h"
#include "podaq/prune/masks.h"
#include "podaq/prune/selection.h"
#include "support/temporary_folder.h"

namespace podaq {
namespace {

using test::first_pruning_step;
using test::last_pruning_step;
using test::Motion;
using test::NetworkBuilder;
using test::Strategy;
using test::TrainingRun;

// A residual, groups, a depthwise layer, odd channels, and rows too short for 2:4.
std::shared_ptr<GraphModule> strategy_network(std::uint64_t seed) {
  NetworkBuilder net(seed);
  ValueId x = net.input("input", {2, 16});
  x = net.relu(net.batch_norm(net.conv(x, "first", 8, 3, false), "norm0"), "relu0");
  const ValueId branch = net.batch_norm(net.conv(x, "second", 8, 3), "norm1");
  x = net.relu(net.apply(Add{}, "sum", {branch, x}), "relu1");
  x = net.relu(net.batch_norm(net.conv(x, "depthwise", 8, 3, false, 8), "norm2"), "relu2");
  x = net.relu(net.batch_norm(net.conv(x, "grouped", 12, 1, true, 2), "norm3"), "relu3");
  x = net.relu(net.batch_norm(net.conv(x, "odd", 7, 1), "norm4"), "relu4");
  return net.build({net.linear(net.apply(GlobalMean{}, "mean", {x}), "head", 4)});
}

Masks zero_masks_of(const GraphModule& model) {
  Masks zeros;
  for (const auto& item : model.named_parameters()) zeros[item.key()] = item.value().detach() == 0;
  return zeros;
}

// What may be pruned together: a layer, or channels that lie in the same values.
struct Extent {
  std::string layer;
  std::int64_t units = 0;
  std::int64_t prunable = 0;
  std::int64_t outputs = 0;  // of the layer
};

std::int64_t count_outputs(const GraphModule& model, const std::string& layer) {
  return model.tensor(layer + ".weight").size(0);
}

std::vector<Extent> extents_of(const GraphModule& model, const Pattern& pattern) {
  std::vector<Extent> extents;
  if (std::holds_alternative<ChannelPattern>(pattern)) {
    for (const ChannelSet& set : find_prunable_channels(model.graph()).sets)
      extents.push_back(
          {set.layers[0], std::ssize(set.groups), std::ssize(set.groups) - 1, count_outputs(model, set.layers[0])});
    return extents;
  }
  for (const WeightedLayer& layer : weighted_layers(model.graph())) {
    const torch::Tensor weight = model.tensor(layer.weight);
    extents.push_back({layer.name, count_units(pattern, weight.sizes(), layer.groups),
                       count_prunable_units(pattern, weight.sizes(), layer.groups), weight.size(0)});
  }
  return extents;
}

// How many channels of each extent are zero or have left the network. Each unit has as many outputs of a layer.
std::vector<std::int64_t> lost_channels(const GraphModule& model, const std::vector<Extent>& extents) {
  const PrunableChannels channels = find_prunable_channels(model.graph());
  const std::vector<bool> pruned = pruned_channels(model.graph(), channels, zero_masks_of(model));
  std::vector<std::int64_t> counts;
  for (const Extent& extent : extents) {
    const std::int64_t removed = extent.outputs - count_outputs(model, extent.layer);
    counts.push_back(removed * extent.units / extent.outputs);
    for (const ChannelSet& set : channels.sets)
      if (set.layers[0] == extent.layer)
        counts.back() += std::ranges::count_if(set.groups, [&](std::size_t group) { return pruned[group]; });
  }
  return counts;
}

// How many units of each extent are zero in the network's own tensors.
std::vector<std::int64_t> zero_units(const GraphModule& model, const Pattern& pattern,
                                     const std::vector<Extent>& extents) {
  if (std::holds_alternative<ChannelPattern>(pattern)) return lost_channels(model, extents);
  const Masks zeros = zero_masks_of(model);
  std::vector<std::int64_t> counts;
  for (const WeightedLayer& layer : weighted_layers(model.graph()))
    counts.push_back(count_pruned(units_of_mask(pattern, zeros.at(layer.weight), layer.groups)));
  return counts;
}

std::int64_t asked_units(const Strategy& strategy, double sparsity, std::int64_t step, std::int64_t units,
                         std::int64_t prunable, std::int64_t layers) {
  if (step < first_pruning_step) return 0;
  const SparsitySchedule schedule{.kind = strategy.schedule,
                                  .final_sparsity = sparsity,
                                  .begin = first_pruning_step,
                                  .end = last_pruning_step,
                                  .rounds = 3};
  return std::min(zeros_at(sparsity_at(schedule, step), units, layers), prunable);
}

// design.md 4: exact counts, and no layer or value is empty.
void expect_counts(const Strategy& strategy, const GraphModule& model, const std::vector<Extent>& extents,
                   std::int64_t step) {
  const std::vector<std::int64_t> zeros = zero_units(model, strategy.pattern, extents);
  for (std::size_t i = 0; i < extents.size(); ++i) EXPECT_LT(zeros[i], extents[i].units) << extents[i].layer;
  if (std::holds_alternative<DeviationThreshold>(strategy.criterion)) return;
  // A weight that grew back is 0 until a gradient moves it.
  const auto expect_count = [&](std::int64_t got, std::int64_t asked, const std::string& layer) {
    if (strategy.motion == Motion::regrowth) {
      EXPECT_GE(got, asked) << layer;
    } else {
      EXPECT_EQ(got, asked) << layer;
    }
  };
  Extent all{.layer = "all layers"};
  std::int64_t zeros_of_all = 0;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    const auto& [layer, units, prunable, outputs] = extents[i];
    const bool is_n_of_m = std::holds_alternative<NOfMPattern>(strategy.pattern);
    const double sparsity = is_n_of_m ? static_cast<double>(prunable) / static_cast<double>(units) : strategy.sparsity;
    if (strategy.distribution == Distribution::uniform)
      expect_count(zeros[i], asked_units(strategy, sparsity, step, units, prunable, 1), layer);
    all.units += units;
    all.prunable += prunable;
    zeros_of_all += zeros[i];
  }
  const bool is_exact_in_all = strategy.distribution == Distribution::global ||
                               (strategy.distribution == Distribution::erk && step >= last_pruning_step);
  if (is_exact_in_all)
    expect_count(zeros_of_all,
                 asked_units(strategy, strategy.sparsity, step, all.units, all.prunable, std::ssize(extents)),
                 all.layer);
}

void expect_same_masks(const Masks& a, const Masks& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, mask] : a) EXPECT_TRUE(mask.equal(b.at(name))) << name;
}

Masks weights_of(const GraphModule& model, const Masks& masks) {
  Masks weights;
  for (const WeightedLayer& layer : weighted_layers(model.graph())) weights[layer.weight] = masks.at(layer.weight);
  return weights;
}

// Zeros that were there and are not any more.
std::int64_t count_returned(const Masks& before, const Masks& after) {
  std::int64_t returned = 0;
  for (const auto& [name, mask] : before)
    if (after.at(name).sizes() == mask.sizes())
      returned += count_pruned(mask.logical_and(after.at(name).logical_not()));
  return returned;
}

// tfmot #206: what lies in the checkpoint itself, before anybody masks it again.
void expect_stored_as_it_is(const std::filesystem::path& checkpoint, const GraphModule& model) {
  const torch::jit::Module stored = torch::jit::load(checkpoint.string()).attr("tensors").toModule();
  std::int64_t found = 0;
  for (std::int64_t i = 0; i < stored.attr("count").toInt(); ++i) {
    const std::string name = stored.attr("name" + std::to_string(i)).toStringRef();
    const torch::Tensor tensor = stored.attr("tensor" + std::to_string(i)).toTensor();
    EXPECT_TRUE(test::same_bits(tensor, model.tensor(name).detach())) << name;
    found += name.ends_with(".weight") ? 1 : 0;
  }
  EXPECT_GE(found, std::ssize(weighted_layers(model.graph())));
}

void expect_zero_codes(const Graph& graph, const Masks& weights, int bits) {
  for (const auto& [name, mask] : weights) {
    const Tensor& stored = tensor_at(graph, name);
    ASSERT_EQ(stored.dtype, DType::s8) << name;
    EXPECT_EQ(stored.bits, bits) << name;
    const auto codes = elements<std::int8_t>(stored);
    const torch::Tensor row = mask.contiguous();
    ASSERT_EQ(std::ssize(codes), row.numel()) << name;
    for (std::size_t i = 0; i < codes.size(); ++i)
      if (row.const_data_ptr<bool>()[i]) {
        ASSERT_EQ(codes[i], 0) << name << " at " << i;
      }
  }
}

void expect_report(const CompressionReport& report, const Masks& weights, bool may_hold_other_zeros) {
  for (const LayerReport& layer : report.layers) {
    const torch::Tensor& zeros = weights.at(layer.layer + ".weight");
    EXPECT_EQ(layer.weights, zeros.numel()) << layer.layer;
    EXPECT_EQ(layer.zeros, count_pruned(zeros)) << layer.layer;
    if (may_hold_other_zeros) {
      EXPECT_LE(layer.masked, layer.zeros) << layer.layer;
    } else {
      EXPECT_EQ(layer.masked, layer.zeros) << layer.layer;
    }
  }
}

void expect_file_computes_what_the_network_does(TrainingRun& run, const Masks& weights, int bits) {
  const Graph graph = run.compressor->convert(test::with_all_channels);
  const std::vector<std::byte> bytes = encode(graph);
  const Graph loaded = decode(bytes);
  EXPECT_EQ(encode(loaded), bytes);
  expect_zero_codes(loaded, weights, bits);

  const torch::Tensor x = run.data.samples.slice(0, 0, 20);
  const torch::NoGradGuard no_grad;
  run.model->eval();
  const torch::Tensor expected = run.model->forward(x);
  const torch::Tensor got = test::run_graph(loaded, {x}).at(0);
  EXPECT_TRUE(torch::equal(got, test::run_graph(graph, {x}).at(0)));
  EXPECT_TRUE(torch::equal(got, test::run_graph(decode(encode(run.compressor->convert())), {x}).at(0)))
      << "without dead channels";
  EXPECT_LT((got - expected).abs().max().item<double>(), 0.05 * expected.abs().max().item<double>() + 1e-5);
  for (const test::NodeDistance& distance : test::node_distances(graph, test::record_values(*run.model, graph, {x})))
    EXPECT_LE(distance.steps, distance.is_float ? 1e-5 : 1.001) << distance.node;
}

void check_strategy(const Strategy& strategy) {
  const Recipe recipe = test::recipe_of(strategy);
  const test::TemporaryFolder folder;
  const std::filesystem::path checkpoint = folder.path() / "checkpoint";
  TrainingRun whole(31, strategy.optimizer, 0.01, 1e-2, recipe, strategy_network(5));
  const std::vector<Extent> extents = extents_of(*whole.model, strategy.pattern);
  const bool recomputes =
      std::holds_alternative<DeviationThreshold>(strategy.criterion) || strategy.motion == Motion::regrowth;
  Masks zeros = zero_masks_of(*whole.model);
  for (std::int64_t step = 1; step <= test::all_strategy_steps; ++step) {
    SCOPED_TRACE("after step " + std::to_string(step));
    whole.train(1);
    expect_counts(strategy, *whole.model, extents, step);
    const Masks before = std::exchange(zeros, zero_masks_of(*whole.model));
    if (step > last_pruning_step && strategy.motion != Motion::regrowth) {
      expect_same_masks(weights_of(*whole.model, zeros), weights_of(*whole.model, before));
    } else if (!recomputes) {
      EXPECT_EQ(count_returned(before, zeros), 0);
    }
    if (step != strategy.stop) continue;
    whole.compressor->save_checkpoint(checkpoint);
    expect_stored_as_it_is(checkpoint, *whole.model);
  }
  const std::vector<std::byte> file = encode(whole.compressor->convert());
  zeros = weights_of(*whole.model, zeros);
  expect_report(whole.compressor->report(), zeros, strategy.motion == Motion::regrowth);
  expect_file_computes_what_the_network_does(whole, zeros, strategy.weight_bits);

  TrainingRun resumed(99, strategy.optimizer, 0.7, 0.5, recipe, strategy_network(6));
  resumed.resume(checkpoint, strategy.stop);
  resumed.train(test::all_strategy_steps - strategy.stop);
  EXPECT_EQ(encode(resumed.compressor->convert()), file);
}

std::string text_of(const Strategy& strategy) {
  return to_toml(test::recipe_of(strategy)) + "optimizer " + strategy.optimizer + ", stopped after step " +
         std::to_string(strategy.stop);
}

class EveryStrategy : public testing::TestWithParam<std::size_t> {};

TEST_P(EveryStrategy, HasExactCountsKeepsZerosThroughTrainingCheckpointAndFileAndResumesToTheSameBytes) {
  for (const Strategy& strategy : test::strategies()) {
    if (strategy.criterion.index() != GetParam()) continue;
    SCOPED_TRACE(text_of(strategy));
    check_strategy(strategy);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Criteria, EveryStrategy, testing::Range(std::size_t{0}, test::criteria().size()),
                         [](const auto& parameter) {
                           return std::string(name_of(test::criteria().at(parameter.param)));
                         });

TEST(StrategyThatDoesNotGoTogether, IsRefusedAndEveryOtherIsTaken) {
  const auto model = strategy_network(1);
  for (const Criterion& criterion : test::criteria())
    for (const Pattern& pattern : test::patterns())
      for (const ScheduleKind schedule : test::schedules()) {
        const bool has_target =
            !std::holds_alternative<DeviationThreshold>(criterion) && !std::holds_alternative<NOfMPattern>(pattern);
        const Recipe recipe = test::recipe_of(
            {.criterion = criterion, .pattern = pattern, .schedule = schedule, .sparsity = has_target ? 0.5 : 0.0});
        const std::string refusal = test::refusal_of(ErrorCode::recipe, [&] { const Compressor it(model, recipe); });
        EXPECT_EQ(refusal.empty(), test::goes_together(criterion, pattern, schedule)) << to_toml(recipe) << refusal;
      }
}

}  // namespace
}  // namespace podaq
