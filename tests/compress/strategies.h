#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "podaq/compress/recipe.h"

namespace podaq::test {

// Criterion x pattern x schedule x bits, as far as they go together: a sample in which each two values of different
// factors meet.

constexpr std::size_t factors = 4;
using Choice = std::array<std::size_t, factors>;  // indices into criteria, patterns, schedules, weight_bits

inline const std::vector<Criterion>& criteria() {
  static const std::vector<Criterion> all = {
      MagnitudeL1{},
      MagnitudeL2{},
      Taylor{},
      Movement{},
      Lamp{},
      GeometricMedian{},
      BatchNormScale{},
      RandomScore{.seed = 3},
      DeviationThreshold{.alpha = 0.75},
      CustomScore{.name = "equal",
                  .score = [](const auto&, const auto& weight, const auto&) { return torch::ones_like(weight); }}};
  return all;
}

inline const std::vector<Pattern>& patterns() {
  static const std::vector<Pattern> all = {UnstructuredPattern{}, NOfMPattern{.n = 2, .m = 4}, BlockPattern{4, 1},
                                           BlockPattern{1, 4}, ChannelPattern{}};
  return all;
}

inline const std::vector<ScheduleKind>& schedules() {
  static const std::vector<ScheduleKind> all = {ScheduleKind::constant,    ScheduleKind::one_shot,
                                                ScheduleKind::linear,      ScheduleKind::cubic,
                                                ScheduleKind::exponential, ScheduleKind::iterative};
  return all;
}

constexpr std::array<int, 7> weight_bits = {2, 3, 4, 5, 6, 7, 8};

/// Whether a recipe may hold all three.
inline bool goes_together(const Criterion& criterion, const Pattern& pattern, ScheduleKind schedule) {
  const bool scores_channels =
      std::holds_alternative<GeometricMedian>(criterion) || std::holds_alternative<BatchNormScale>(criterion);
  if (scores_channels && !std::holds_alternative<ChannelPattern>(pattern)) return false;
  if (gathers(criterion) && schedule == ScheduleKind::constant) return false;
  if (!std::holds_alternative<DeviationThreshold>(criterion)) return true;
  return std::holds_alternative<UnstructuredPattern>(pattern) && schedule != ScheduleKind::exponential &&
         schedule != ScheduleKind::iterative;
}

/// What moves masks or weights back.
enum class Motion : std::uint8_t { none, regrowth, rewinding };

/// One way to prune and quantize.
struct Strategy {
  Criterion criterion;
  Pattern pattern;
  ScheduleKind schedule = ScheduleKind::cubic;
  int weight_bits = 8;
  // Drawn, as far as they go with the rest:
  Distribution distribution = Distribution::uniform;
  Motion motion = Motion::none;
  WeightScale weight_scale = WeightScale::largest;
  double sparsity = 0;
  bool removes_channels = true;
  std::string optimizer = "SGD";
  std::int64_t stop = 0;  // steps done when it is interrupted
};

inline std::vector<Choice> all_choices() {
  std::vector<Choice> choices;
  for (std::size_t criterion = 0; criterion < criteria().size(); ++criterion)
    for (std::size_t pattern = 0; pattern < patterns().size(); ++pattern)
      for (std::size_t schedule = 0; schedule < schedules().size(); ++schedule)
        for (std::size_t bits = 0; bits < weight_bits.size(); ++bits)
          if (goes_together(criteria()[criterion], patterns()[pattern], schedules()[schedule]))
            choices.push_back({criterion, pattern, schedule, bits});
  return choices;
}

using Pair = std::array<std::size_t, 4>;  // a factor and its value, another and its value

inline std::vector<Pair> pairs_of(const Choice& choice) {
  std::vector<Pair> pairs;
  for (std::size_t a = 0; a < factors; ++a)
    for (std::size_t b = a + 1; b < factors; ++b) pairs.push_back({a, choice[a], b, choice[b]});
  return pairs;
}

// Always the choice that brings the most pairs that have not met yet.
inline std::vector<Choice> covering_choices() {
  const std::vector<Choice> all = all_choices();
  std::set<Pair> missing;
  for (const Choice& choice : all)
    for (const Pair& pair : pairs_of(choice)) missing.insert(pair);
  const auto gain = [&](const Choice& choice) {
    return std::ranges::count_if(pairs_of(choice), [&](const Pair& pair) { return missing.contains(pair); });
  };
  std::vector<Choice> chosen;
  while (!missing.empty()) {
    chosen.push_back(*std::ranges::max_element(all, {}, gain));
    for (const Pair& pair : pairs_of(chosen.back())) missing.erase(pair);
  }
  return chosen;
}

/// Steps done; the recipe ends with all of them.
constexpr std::int64_t first_pruning_step = 2;
constexpr std::int64_t last_pruning_step = 8;
constexpr std::int64_t all_strategy_steps = 20;

/// The sample: the drawn options are the same every time.
inline std::vector<Strategy> strategies() {
  std::mt19937_64 random(29);
  const auto draw = [&]<typename Value>(const std::vector<Value>& values) { return values[random() % values.size()]; };
  std::vector<Strategy> all;
  for (const auto& [criterion, pattern, schedule, bits] : covering_choices()) {
    Strategy strategy{
        .criterion = criteria()[criterion],
        .pattern = patterns()[pattern],
        .schedule = schedules()[schedule],
        .weight_bits = weight_bits[bits],
        .distribution = draw(std::vector{Distribution::uniform, Distribution::global, Distribution::erk}),
        .motion = draw(std::vector{Motion::none, Motion::regrowth}),
        .weight_scale = draw(std::vector{WeightScale::largest, WeightScale::least_squares, WeightScale::learned}),
        .sparsity = draw(std::vector{0.3, 0.5, 0.75, 0.9}),
        .removes_channels = draw(std::vector<int>{0, 1, 1}) == 1,
        .optimizer = draw(std::vector<std::string>{"SGD", "Adam", "AdamW", "RMSprop"}),
        .stop = 1 + static_cast<std::int64_t>(random() % (all_strategy_steps - 1))};
    const bool has_threshold = std::holds_alternative<DeviationThreshold>(strategy.criterion);
    const bool is_n_of_m = std::holds_alternative<NOfMPattern>(strategy.pattern);
    if (has_threshold || is_n_of_m) {
      strategy.sparsity = 0;
      strategy.distribution = Distribution::uniform;
    }
    if (strategy.schedule == ScheduleKind::iterative && strategy.motion == Motion::none)
      strategy.motion = Motion::rewinding;
    if (strategy.motion == Motion::regrowth &&
        (has_threshold || is_n_of_m || std::holds_alternative<ChannelPattern>(strategy.pattern)))
      strategy.motion = Motion::none;
    all.push_back(strategy);
  }
  return all;
}

/// The stages are 2, 6, 2, 4, 2 and 4 steps long where an epoch has 5.
inline Recipe recipe_of(const Strategy& strategy) {
  PruneRecipe prune{.sparsity = strategy.sparsity,
                    .criterion = strategy.criterion,
                    .pattern = strategy.pattern,
                    .distribution = strategy.distribution,
                    .schedule = strategy.schedule};
  if (strategy.schedule == ScheduleKind::iterative) prune.rounds = 3;
  if (strategy.motion == Motion::rewinding) prune.rewind_epoch = 0.4;
  if (strategy.motion == Motion::regrowth) prune.regrowth = Regrowth{.every = 2, .fraction = 0.4};
  if (std::holds_alternative<ChannelPattern>(strategy.pattern)) prune.remove_channels = strategy.removes_channels;
  return {.epochs = {.dense = 0.4,
                     .prune = 1.2,
                     .recover = 0.4,
                     .quantize = 0.8,
                     .freeze_batch_norm = 0.4,
                     .freeze_observers = 0.8},
          .prune = prune,
          .quantize = QuantizeRecipe{.weight_bits = strategy.weight_bits, .weight_scale = strategy.weight_scale}};
}

}  // namespace podaq::test
