#pragma once

#include <torch/types.h>

#include <cstdint>

#include "podaq/numerics/qparams.h"

namespace podaq {

/// How an activation's range follows what passes by.
enum class ObserverKind : std::uint8_t {
  ema,      ///< The first batch's range, then m += averaging_constant * (x - m) with each batch's.
  min_max,  ///< The smallest and largest number ever seen.
};

/// How activations are observed.
struct ObserverOptions {
  ObserverKind kind = ObserverKind::ema;  ///< How the range follows.
  double averaging_constant = 0.01;       ///< ema: in (0, 1].
};

/// The range of what one tensor has held while training.
struct ObservedRange {
  double minimum = 0.0;                  ///< Meaningful once observed.
  double maximum = 0.0;                  ///< Meaningful once observed.
  bool is_observed = false;              ///< False until a finite number came by.
  std::int64_t not_finite_elements = 0;  ///< NaN and infinities that came by; they never enter the range.

  friend bool operator==(const ObservedRange&, const ObservedRange&) = default;
};

/// Lets one batch's values into the range. NaN and infinities are counted and left out; a batch without any finite
/// number leaves the range alone. Any floating-point type and device.
void observe(ObservedRange& range, const torch::Tensor& values, const ObserverOptions& options);

/// The smallest range that holds both; an unobserved one adds nothing.
[[nodiscard]] ObservedRange unite(const ObservedRange& a, const ObservedRange& b);

/// The activation parameters for an observed range (numerics::choose_activation_qparams).
[[nodiscard]] QParams qparams_for(const ObservedRange& range, int bits);

}  // namespace podaq
