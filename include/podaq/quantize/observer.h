#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <variant>

#include "podaq/numerics/qparams.h"
#include "podaq/quantize/histogram.h"

namespace podaq {

/// The first batch's range, then m += averaging_constant * (x - m) with each batch's.
struct EmaObserver {
  double averaging_constant = 0.01;  ///< In (0, 1].
};

/// The smallest and largest number ever seen.
struct MinMaxObserver {};

/// What leaves a share of 1 - percentile / 100 of all numbers ever seen beyond each end (percentile_range).
struct PercentileObserver {
  double percentile = 99.99;  ///< In (50, 100].
};

/// The range of least squared error over all numbers ever seen (least_squares_range).
struct LeastSquaresObserver {};

/// The range of least Kullback-Leibler divergence over all numbers ever seen (least_divergence_range).
struct LeastDivergenceObserver {};

/// A range known beforehand; nothing is learned from data.
struct FixedObserver {
  double minimum = 0.0;  ///< Finite.
  double maximum = 1.0;  ///< Finite, at least the minimum. The range is widened to contain 0.
};

/// How an activation's range follows what passes by. Percentile, least_squares and least_divergence keep a histogram,
/// which weighs old batches as much as new ones; the last two search it after 1, 2, 4, … 64 batches, then after every
/// 64th, and when the range is settled.
using ObserverOptions = std::variant<EmaObserver, MinMaxObserver, PercentileObserver, LeastSquaresObserver,
                                     LeastDivergenceObserver, FixedObserver>;

/// Throws Error(invalid_argument) naming the field outside its range.
void validate(const ObserverOptions& options);

/// The range of what one tensor has held while observed, and what its observer keeps between batches.
struct ObservedRange {
  double minimum = 0.0;                  ///< Where codes reach from; meaningful once observed.
  double maximum = 0.0;                  ///< Where codes reach to; meaningful once observed.
  bool is_observed = false;              ///< False until a finite number came by.
  std::int64_t not_finite_elements = 0;  ///< NaN and infinities that came by; they never enter the range.
  std::int64_t batches = 0;              ///< Batches with a finite number.
  Histogram histogram = {};              ///< Of observers that keep one.

  friend bool operator==(const ObservedRange&, const ObservedRange&) = default;
};

/// The range of a tensor before anything was observed: that of a fixed observer counts as observed already.
[[nodiscard]] ObservedRange initial_range(const ObserverOptions& options);

/// Lets one batch's values into the range. NaN and infinities are counted and left out; a batch without any finite
/// number leaves the range alone. Any floating-point type and device.
/// @param bits  of the codes that the range is for.
void observe(ObservedRange& range, const torch::Tensor& values, const ObserverOptions& options, int bits);

/// Brings the range up to date with all that was observed.
void settle(ObservedRange& range, const ObserverOptions& options, int bits);

/// The smallest range that holds both; an unobserved one adds nothing. Says nothing of histograms.
[[nodiscard]] ObservedRange unite(const ObservedRange& a, const ObservedRange& b);

/// The activation parameters for an observed range (numerics::choose_activation_qparams).
[[nodiscard]] QParams qparams_for(const ObservedRange& range, int bits);

/// The observer's name as recipes spell it: "ema", "min_max", "percentile", "least_squares", "least_divergence",
/// "fixed".
[[nodiscard]] std::string_view name_of(const ObserverOptions& options);

}  // namespace podaq
