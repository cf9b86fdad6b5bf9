#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "podaq/data/dataset.h"

namespace podaq {

/// How `stratified_split` deals out a data set.
struct SplitOptions {
  std::vector<double> fractions = {};  ///< Share of each part: each in (0, 1], their sum at most 1.
  std::uint64_t seed = 0;              ///< The same seed gives the same parts.
};

/// What each sample of a data set belongs to, all that a stratified split needs to know of it.
struct Strata {
  std::span<const std::int32_t> labels;  ///< One class number per sample.
  std::span<const std::int32_t> groups;  ///< One stratum per sample (the SNR in dB, say); empty where there is none.
};

/// Deals the samples out into fractions.size() disjoint parts so that each (label, group) cell is shared in the given
/// proportions: of n samples the first k parts together hold floor(n·(f_1 + … + f_k) + 0.5). Fractions that sum to 1
/// use every sample. Each part's sample indices are ascending. How a cell is dealt depends on the seed, its label, its
/// group and its size alone.
/// Throws `Error` (invalid_argument) if the options are outside their ranges, or there are groups for other than all
/// samples.
[[nodiscard]] std::vector<std::vector<std::int64_t>> stratified_split(const Strata& strata,
                                                                      const SplitOptions& options);

/// The same for a data set in memory.
[[nodiscard]] std::vector<std::vector<std::int64_t>> stratified_split(const Dataset& dataset,
                                                                      const SplitOptions& options);

}  // namespace podaq
