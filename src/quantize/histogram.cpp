#include "podaq/quantize/histogram.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

#include "quantize/histogram_rows.h"

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
  const quantize_detail::RowExtremes extremes =
      quantize_detail::nonzero_extremes_row(values.data(), std::ssize(values));
  if (extremes.smallest > extremes.largest) {
    histogram.zeros += std::ssize(values);
    return;
  }
  widen(histogram, extremes.smallest, extremes.largest);

  // Several tables, since a processor waits for the last count of a bin before it adds to it again.
  constexpr std::size_t tables = 4;
  constexpr std::size_t slots = Histogram::bins + 1;  // the last one counts zeros
  constexpr std::size_t block = 1024;
  std::vector<std::int64_t> counts(tables * slots);
  std::array<std::int32_t, block> bins{};
  const auto bins_per_unit = static_cast<float>(std::ldexp(1.0, -histogram.width_exponent));
  for (std::size_t begin = 0; begin < values.size(); begin += block) {
    const std::span<const float> part = values.subspan(begin, std::min(block, values.size() - begin));
    quantize_detail::bins_row(part.data(), bins.data(), std::ssize(part), bins_per_unit,
                              static_cast<std::int32_t>(histogram.first), Histogram::bins);
    for (std::size_t i = 0; i < part.size(); ++i) ++counts[(i % tables) * slots + static_cast<std::size_t>(bins[i])];
  }
  for (std::size_t table = 0; table < tables; ++table) {
    for (std::size_t i = 0; i < histogram.counts.size(); ++i) histogram.counts[i] += counts[table * slots + i];
    histogram.zeros += counts[table * slots + slots - 1];
  }
}

double bin_width(const Histogram& histogram) {
  return std::ldexp(1.0, histogram.width_exponent);
}

std::int64_t numbers_in_bins(const Histogram& histogram) {
  return std::accumulate(histogram.counts.begin(), histogram.counts.end(), std::int64_t{0});
}

}  // namespace podaq
