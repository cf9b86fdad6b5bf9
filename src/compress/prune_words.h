#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "podaq/compress/recipe.h"

namespace podaq::compress_detail {

// The words of [prune] that stand for enumerators: reading and writing recipes share them.
inline constexpr std::array<std::pair<std::string_view, Distribution>, 3> distribution_words = {
    {{"uniform", Distribution::uniform}, {"global", Distribution::global}, {"erk", Distribution::erk}}};
inline constexpr std::array<std::pair<std::string_view, ScheduleKind>, 6> schedule_words = {
    {{"constant", ScheduleKind::constant},
     {"one_shot", ScheduleKind::one_shot},
     {"linear", ScheduleKind::linear},
     {"cubic", ScheduleKind::cubic},
     {"exponential", ScheduleKind::exponential},
     {"iterative", ScheduleKind::iterative}}};

[[nodiscard]] constexpr std::string_view word_of(Distribution value) {
  return distribution_words.at(static_cast<std::size_t>(value)).first;
}
[[nodiscard]] constexpr std::string_view word_of(ScheduleKind value) {
  return schedule_words.at(static_cast<std::size_t>(value)).first;
}

/// The criterion in a recipe's text, where a C++ program's own bears its name, so that recipes with different ones
/// differ (no text is read back to those).
[[nodiscard]] inline std::string criterion_word(const Criterion& criterion) {
  const auto* custom = std::get_if<CustomScore>(&criterion);
  return std::string(name_of(criterion)) + (custom == nullptr ? std::string() : " " + custom->name);
}

/// The share of weights that n:m prunes where groups are full.
[[nodiscard]] inline double sparsity_of(const NOfMPattern& pattern) {
  return 1.0 - static_cast<double>(pattern.n) / static_cast<double>(pattern.m);
}

/// The share that the recipe asks of a layer without an exception.
[[nodiscard]] inline double target_sparsity(const PruneRecipe& prune) {
  const auto* n_of_m = std::get_if<NOfMPattern>(&prune.pattern);
  return n_of_m == nullptr ? prune.sparsity : sparsity_of(*n_of_m);
}

}  // namespace podaq::compress_detail
