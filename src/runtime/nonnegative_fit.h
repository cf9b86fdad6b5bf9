#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace podaq::runtime_detail {

/// A linear equation: the sum of features times coefficients should be `target`, and matters as much as `weight` says.
struct Observation {
  std::vector<double> features;
  double target = 0.0;
  double weight = 1.0;
};

/// The coefficients >= 0 that minimize the sum of (weight * (features . coefficients - target))^2 (Lawson and Hanson,
/// "Solving Least Squares Problems", chapter 23). A coefficient that no feature touches is 0.
/// @param observations  All with as many features.
[[nodiscard]] std::vector<double> fit_nonnegative(std::span<const Observation> observations);

}  // namespace podaq::runtime_detail
