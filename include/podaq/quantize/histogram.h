#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace podaq {

/// How many numbers fell where, in bins of one width. The width is a power of two and 0 is an edge between bins, so
/// that a wider range merges whole pairs of bins: no count is lost or split, and what came by in whatever order or
/// batches leaves the same histogram.
struct Histogram {
  static constexpr std::int64_t bins = 2048;      ///< Of which more than half are in use once two numbers came by.
  static constexpr int smallest_exponent = -126;  ///< Numbers below 2^-126 share the bins beside 0.

  int width_exponent = smallest_exponent;  ///< A bin is 2^width_exponent wide.
  std::int64_t first = 0;                  ///< counts[i] are the numbers in [(first + i) width, (first + i + 1) width).
  std::vector<std::int64_t> counts;        ///< Empty, or `bins` of them.
  std::int64_t zeros = 0;                  ///< Numbers that are exactly 0; they lie in no bin.
  double smallest = std::numeric_limits<double>::infinity();  ///< The extremes of what came by, zeros left out.
  double largest = -std::numeric_limits<double>::infinity();  ///< See `smallest`.

  friend bool operator==(const Histogram&, const Histogram&) = default;
};

/// Counts finite `values`, widening the bins where they leave the range.
void count_values(Histogram& histogram, std::span<const float> values);

/// The width of a bin.
[[nodiscard]] double bin_width(const Histogram& histogram);

/// The numbers counted, zeros left out.
[[nodiscard]] std::int64_t numbers_in_bins(const Histogram& histogram);

}  // namespace podaq
