#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "podaq/data/dataset.h"
#include "podaq/runtime/model.h"

namespace podaq {

/// A count of right answers.
struct Score {
  std::int64_t right = 0;  ///< Right answers.
  std::int64_t total = 0;  ///< Answers.
  /// right / total; 0 for no answers.
  [[nodiscard]] double accuracy() const { return total == 0 ? 0.0 : static_cast<double>(right) / total; }
};

/// Bounds of a proportion.
struct Interval {
  double lowest = 0;   ///< In [0, 1].
  double highest = 1;  ///< In [0, 1].
};

/// Wilson's score interval of 95 % (z = 1.96) for a proportion; [0, 1] for an empty count.
[[nodiscard]] Interval confidence_interval(const Score& score);

/// The answers of a model on a data set.
struct Evaluation {
  std::vector<std::int32_t> predictions;   ///< Top-1 class per sample; ties go to the lower class.
  Score all;                               ///< Over the whole data set.
  std::map<std::int32_t, Score> by_group;  ///< Empty when the data set has no groups.
};

/// Runs `model` (one input, one output of as many elements as there are classes) on every sample of `dataset`.
/// @param threads  1 to 1024; each has a Runner of its own. The result does not depend on it.
[[nodiscard]] Evaluation evaluate(const Model& model, const Dataset& dataset, int threads = 1);

/// What `model` says to every sample: classes numbers for each. Throws as `evaluate` does.
[[nodiscard]] std::vector<float> logits_of(const Model& model, const Dataset& dataset);

/// The score over all groups >= `lowest_group`.
[[nodiscard]] Score score_from_group(const Evaluation& evaluation, std::int32_t lowest_group);

/// The share of equal entries of two lists of predictions of the same length.
[[nodiscard]] double agreement(std::span<const std::int32_t> a, std::span<const std::int32_t> b);

}  // namespace podaq
