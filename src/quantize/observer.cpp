#include "podaq/quantize/observer.h"

#include <ATen/ops/aminmax.h>
#include <ATen/ops/isfinite.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <span>

#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "podaq/numerics/choose_qparams.h"
#include "podaq/quantize/range_search.h"

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

template <typename Observer>
constexpr bool keeps_histogram =
    std::is_same_v<Observer, PercentileObserver> || std::is_same_v<Observer, LeastSquaresObserver> ||
    std::is_same_v<Observer, LeastDivergenceObserver>;

// Searches take milliseconds, and what one more batch adds to many changes little.
bool is_search_due(std::int64_t batches) {
  constexpr std::int64_t interval = 64;
  return batches % interval == 0 || std::has_single_bit(static_cast<std::uint64_t>(batches));
}

CodeRange chosen(const Histogram& histogram, const PercentileObserver& observer, int /*bits*/) {
  return percentile_range(histogram, observer.percentile);
}

CodeRange chosen(const Histogram& histogram, const LeastSquaresObserver& /*observer*/, int bits) {
  return least_squares_range(histogram, bits);
}

CodeRange chosen(const Histogram& histogram, const LeastDivergenceObserver& /*observer*/, int bits) {
  return least_divergence_range(histogram, bits);
}

template <typename Observer>
void choose_range(ObservedRange& range, const Observer& observer, int bits) {
  const CodeRange best = chosen(range.histogram, observer, bits);
  range.minimum = best.minimum;
  range.maximum = best.maximum;
}

void require(bool holds, const std::string& problem) {
  if (!holds) throw Error(ErrorCode::invalid_argument, concat("observer: ", problem));
}

// One batch of finite numbers.
struct Batch {
  const torch::Tensor& row;
  Extremes extremes;
  int bits;
};

void follow(ObservedRange& range, const Batch& batch, const EmaObserver& observer) {
  const double weight = range.batches == 1 ? 1.0 : observer.averaging_constant;
  range.minimum += weight * (batch.extremes.minimum - range.minimum);
  range.maximum += weight * (batch.extremes.maximum - range.maximum);
}

void follow(ObservedRange& range, const Batch& batch, const MinMaxObserver& /*observer*/) {
  const bool is_first = range.batches == 1;
  range.minimum = is_first ? batch.extremes.minimum : std::min(range.minimum, batch.extremes.minimum);
  range.maximum = is_first ? batch.extremes.maximum : std::max(range.maximum, batch.extremes.maximum);
}

template <typename Observer>
void follow(ObservedRange& range, const Batch& batch, const Observer& observer) {
  const torch::Tensor floats = batch.row.to(torch::kCPU, torch::kFloat).contiguous();
  count_values(range.histogram, {floats.const_data_ptr<float>(), static_cast<std::size_t>(floats.numel())});
  if (std::is_same_v<Observer, PercentileObserver> || is_search_due(range.batches))
    choose_range(range, observer, batch.bits);
}

void follow(ObservedRange& /*range*/, const Batch& /*batch*/, const FixedObserver& /*observer*/) {}

}  // namespace

void validate(const ObserverOptions& options) {
  if (const auto* ema = std::get_if<EmaObserver>(&options))
    require(ema->averaging_constant > 0 && ema->averaging_constant <= 1,
            concat("averaging_constant is ", ema->averaging_constant, ", must lie in (0, 1]"));
  if (const auto* percentile = std::get_if<PercentileObserver>(&options))
    require(percentile->percentile > 50 && percentile->percentile <= 100,
            concat("percentile is ", percentile->percentile, ", must lie in (50, 100]"));
  if (const auto* fixed = std::get_if<FixedObserver>(&options)) {
    constexpr double largest = std::numeric_limits<float>::max();
    const bool is_range = fixed->minimum <= fixed->maximum;  // false for NaN
    require(is_range && fixed->minimum >= -largest && fixed->maximum <= largest,
            concat("the fixed range [", fixed->minimum, ", ", fixed->maximum,
                   "] must hold two finite numbers, the smaller one first"));
  }
}

ObservedRange initial_range(const ObserverOptions& options) {
  if (const auto* fixed = std::get_if<FixedObserver>(&options))
    return {.minimum = fixed->minimum, .maximum = fixed->maximum, .is_observed = true};
  return {};
}

void observe(ObservedRange& range, const torch::Tensor& values, const ObserverOptions& options, int bits) {
  const torch::NoGradGuard no_grad;
  torch::Tensor row = as_row(values.detach());
  if (row.numel() == 0) return;

  Extremes extremes = extremes_of(row);
  if (!std::isfinite(extremes.minimum) || !std::isfinite(extremes.maximum)) {
    const std::int64_t elements = row.numel();
    row = row.masked_select(torch::isfinite(row));
    range.not_finite_elements += elements - row.numel();
    if (row.numel() == 0) return;
    extremes = extremes_of(row);
  }
  range.is_observed = true;
  ++range.batches;
  const Batch batch{.row = row, .extremes = extremes, .bits = bits};
  std::visit([&](const auto& observer) { follow(range, batch, observer); }, options);
}

void settle(ObservedRange& range, const ObserverOptions& options, int bits) {
  if (!range.is_observed) return;
  std::visit(
      [&]<typename Observer>(const Observer& observer) {
        if constexpr (keeps_histogram<Observer>) choose_range(range, observer, bits);
      },
      options);
}

ObservedRange unite(const ObservedRange& a, const ObservedRange& b) {
  ObservedRange both;
  both.is_observed = a.is_observed || b.is_observed;
  both.minimum = !b.is_observed ? a.minimum : !a.is_observed ? b.minimum : std::min(a.minimum, b.minimum);
  both.maximum = !b.is_observed ? a.maximum : !a.is_observed ? b.maximum : std::max(a.maximum, b.maximum);
  both.not_finite_elements = a.not_finite_elements + b.not_finite_elements;
  both.batches = std::max(a.batches, b.batches);
  return both;
}

QParams qparams_for(const ObservedRange& range, int bits) {
  return numerics::choose_activation_qparams(static_cast<float>(range.minimum), static_cast<float>(range.maximum),
                                             bits);
}

std::string_view name_of(const ObserverOptions& options) {
  constexpr std::array<std::string_view, 6> names = {"ema",           "min_max",          "percentile",
                                                     "least_squares", "least_divergence", "fixed"};
  return names.at(options.index());
}

}  // namespace podaq
