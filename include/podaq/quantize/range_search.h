#pragma once

#include "podaq/quantize/histogram.h"

namespace podaq {

/// Where an activation's codes are to reach from and to; 0 lies in between.
struct CodeRange {
  double minimum = 0.0;  ///< At most 0.
  double maximum = 0.0;  ///< At least 0.

  friend bool operator==(const CodeRange&, const CodeRange&) = default;
};

/// The range that leaves at most a share of 1 - percentile / 100 of all numbers, zeros included, beyond each of its
/// ends; inside a bin by linear interpolation. A side without numbers ends at 0.
/// @param percentile  in (50, 100]; 100 gives the extremes.
[[nodiscard]] CodeRange percentile_range(const Histogram& histogram, double percentile);

/// The range whose `bits`-bit codes are closest to the numbers in squared error: sum of count * (q(x) - x)^2 over the
/// bins' centers x, q being numerics::fake_quantize. Every bin edge is tried as either end, one end at a time and in
/// turn until neither moves, so that a first rise of the error stops nothing. Exact zeros cost nothing and are left
/// out.
[[nodiscard]] CodeRange least_squares_range(const Histogram& histogram, int bits);

/// The range whose `bits`-bit codes keep most of the distribution: the least Kullback-Leibler divergence of the
/// numbers, those beyond an end counted at the outermost occupied bin, from what the codes tell of them, the numbers of
/// a code spread evenly over its occupied bins (Migacz, 8-bit Inference with TensorRT, GTC 2017). Tries bin edges as
/// least_squares_range does, among ranges of at least 2^bits bins: narrower ones lose nothing to rounding and would win
/// by clipping all. Exact zeros are left out, since every range renders them exactly.
[[nodiscard]] CodeRange least_divergence_range(const Histogram& histogram, int bits);

}  // namespace podaq
