#include "podaq/quantize/observer.h"

#include <ATen/ops/aminmax.h>
#include <ATen/ops/isfinite.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>

#include "podaq/numerics/choose_qparams.h"

namespace podaq {
namespace {

struct Extremes {
  double minimum = 0.0;
  double maximum = 0.0;
};

Extremes extremes_of(const torch::Tensor& row) {
  const auto [minimum, maximum] = at::aminmax(row);
  return {.minimum = minimum.item<double>(), .maximum = maximum.item<double>()};
}

// The elements as one row; without a copy where they lie densely, in whatever order.
torch::Tensor as_row(const torch::Tensor& values) {
  if (!values.is_non_overlapping_and_dense()) return values.reshape({-1});
  return values.as_strided({values.numel()}, {1}, values.storage_offset());
}

}  // namespace

void observe(ObservedRange& range, const torch::Tensor& values, const ObserverOptions& options) {
  const torch::NoGradGuard no_grad;
  torch::Tensor row = as_row(values.detach());
  if (row.numel() == 0) return;

  Extremes batch = extremes_of(row);
  if (!std::isfinite(batch.minimum) || !std::isfinite(batch.maximum)) {
    const std::int64_t elements = row.numel();
    row = row.masked_select(torch::isfinite(row));
    range.not_finite_elements += elements - row.numel();
    if (row.numel() == 0) return;
    batch = extremes_of(row);
  }

  if (!range.is_observed) {
    range.minimum = batch.minimum;
    range.maximum = batch.maximum;
    range.is_observed = true;
  } else if (options.kind == ObserverKind::min_max) {
    range.minimum = std::min(range.minimum, batch.minimum);
    range.maximum = std::max(range.maximum, batch.maximum);
  } else {
    range.minimum += options.averaging_constant * (batch.minimum - range.minimum);
    range.maximum += options.averaging_constant * (batch.maximum - range.maximum);
  }
}

ObservedRange unite(const ObservedRange& a, const ObservedRange& b) {
  ObservedRange both = a.is_observed ? a : b;
  if (a.is_observed && b.is_observed) {
    both.minimum = std::min(a.minimum, b.minimum);
    both.maximum = std::max(a.maximum, b.maximum);
  }
  both.not_finite_elements = a.not_finite_elements + b.not_finite_elements;
  return both;
}

QParams qparams_for(const ObservedRange& range, int bits) {
  return numerics::choose_activation_qparams(static_cast<float>(range.minimum), static_cast<float>(range.maximum),
                                             bits);
}

}  // namespace podaq
