#include "podaq/quantize/histogram.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace podaq {
namespace {

std::int64_t bin_of(double number, int width_exponent) {
  return static_cast<std::int64_t>(std::floor(std::ldexp(number, -width_exponent)));
}

// The narrowest bins of which `Histogram::bins` span [smallest, largest] and 0.
int exponent_for(double smallest, double largest, int at_least) {
  const double low = std::min(smallest, 0.0);
  const double high = std::max(largest, 0.0);
  constexpr int bits = 11;  // 2^11 = Histogram::bins; narrower bins than these cannot do, and would overflow
  int exponent = std::max(at_least, std::ilogb(std::max(-low, high)) - bits);
  while (bin_of(high, exponent) - bin_of(low, exponent) >= Histogram::bins) ++exponent;
  return exponent;
}

// Makes room for [smallest, largest]. Halving a bin's number, rounded down, gives the wider bin that holds it.
void widen(Histogram& histogram, double smallest, double largest) {
  const bool is_first = histogram.counts.empty();
  histogram.smallest = std::min(histogram.smallest, smallest);
  histogram.largest = std::max(histogram.largest, largest);
  const int exponent = exponent_for(histogram.smallest, histogram.largest, histogram.width_exponent);
  const std::int64_t first = bin_of(std::min(histogram.smallest, 0.0), exponent);
  if (!is_first && exponent == histogram.width_exponent && first == histogram.first) return;

  std::vector<std::int64_t> counts(Histogram::bins, 0);
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    if (histogram.counts[i] == 0) continue;
    const std::int64_t wider =
        (histogram.first + static_cast<std::int64_t>(i)) >> std::min(exponent - histogram.width_exponent, 62);
    counts[static_cast<std::size_t>(wider - first)] += histogram.counts[i];
  }
  histogram.width_exponent = exponent;
  histogram.first = first;
  histogram.counts = std::move(counts);
}

}  // namespace

void count_values(Histogram& histogram, std::span<const float> values) {
  float smallest = std::numeric_limits<float>::infinity();
  float largest = -std::numeric_limits<float>::infinity();
  for (const float value : values) {
    if (value == 0.0F) continue;
    smallest = std::min(smallest, value);
    largest = std::max(largest, value);
  }
  if (smallest > largest) {
    histogram.zeros += static_cast<std::int64_t>(values.size());
    return;
  }
  widen(histogram, smallest, largest);

  const double bins_per_unit = std::ldexp(1.0, -histogram.width_exponent);
  for (const float value : values) {
    if (value == 0.0F) {
      ++histogram.zeros;
      continue;
    }
    const double position = value * bins_per_unit;  // exact
    auto bin = static_cast<std::int64_t>(position);
    bin -= position < static_cast<double>(bin) ? 1 : 0;  // rounds down, as std::floor does but faster
    ++histogram.counts[static_cast<std::size_t>(bin - histogram.first)];
  }
}

double bin_width(const Histogram& histogram) {
  return std::ldexp(1.0, histogram.width_exponent);
}

std::int64_t numbers_in_bins(const Histogram& histogram) {
  return std::accumulate(histogram.counts.begin(), histogram.counts.end(), std::int64_t{0});
}

}  // namespace podaq
