#include "podaq/quantize/range_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "podaq/numerics/choose_qparams.h"
#include "quantize/fake_quantize_rows.h"

namespace podaq {
namespace {

// A range in bins: codes reach from the lower edge of bin `begin` to the upper edge of bin `end - 1`, both counted
// from the histogram's first bin. begin <= the bin above 0 <= end.
struct BinRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  friend bool operator==(const BinRange&, const BinRange&) = default;
};

// The bins in use, and the edge that is 0.
struct UsedBins {
  BinRange all;
  std::int64_t zero = 0;
};

UsedBins used_bins(const Histogram& histogram) {
  UsedBins used{.all = {}, .zero = -histogram.first};
  used.all = {.begin = used.zero, .end = used.zero};
  for (std::int64_t i = 0; i < std::ssize(histogram.counts); ++i) {
    if (histogram.counts[static_cast<std::size_t>(i)] == 0) continue;
    used.all.begin = std::min(used.all.begin, i);
    used.all.end = std::max(used.all.end, i + 1);
  }
  return used;
}

// The outermost edges give way to the extremes themselves.
CodeRange code_range(const Histogram& histogram, const BinRange& range) {
  const double width = bin_width(histogram);
  const auto edge = [&](std::int64_t bin) { return static_cast<double>(histogram.first + bin) * width; };
  return {.minimum = std::min(std::max(edge(range.begin), histogram.smallest), 0.0),
          .maximum = std::max(std::min(edge(range.end), histogram.largest), 0.0)};
}

// The range of least cost. Each round tries every place of one end; ties go to the wider range.
template <typename Cost>
CodeRange search(const Histogram& histogram, std::int64_t fewest_bins, const Cost& cost) {
  if (histogram.counts.empty()) return {};
  const UsedBins used = used_bins(histogram);
  BinRange best = used.all;
  double least = cost(best);
  const auto try_range = [&](const BinRange& candidate) {
    if (candidate.end - candidate.begin < fewest_bins) return;
    const double candidate_cost = cost(candidate);
    if (!(candidate_cost < least)) return;
    least = candidate_cost;
    best = candidate;
  };
  constexpr int most_rounds = 8;
  for (int round = 0; round < most_rounds; ++round) {
    const BinRange before = best;
    for (std::int64_t end = used.all.end; end > used.zero; --end) try_range({.begin = best.begin, .end = end});
    for (std::int64_t begin = used.all.begin; begin < used.zero; ++begin) try_range({.begin = begin, .end = best.end});
    if (best == before) break;
  }
  return code_range(histogram, best);
}

QParams qparams_of(const CodeRange& range, int bits) {
  return numerics::choose_activation_qparams(static_cast<float>(range.minimum), static_cast<float>(range.maximum),
                                             bits);
}

// Sums up to each bin of its count, of count ln count, and of bins in use; and each bin's nearest bin in use.
struct RunningSums {
  std::vector<double> counts, entropy, used;
  std::vector<std::int64_t> used_from, used_until;  // the first at or above, the last at or below

  explicit RunningSums(std::span<const std::int64_t> bins)
      : counts(bins.size() + 1),
        entropy(bins.size() + 1),
        used(bins.size() + 1),
        used_from(bins.size()),
        used_until(bins.size()) {
    for (std::size_t i = 0; i < bins.size(); ++i)
      used_until[i] = bins[i] > 0 ? static_cast<std::int64_t>(i) : (i > 0 ? used_until[i - 1] : -1);
    for (std::size_t i = bins.size(); i-- > 0;)
      used_from[i] =
          bins[i] > 0 ? static_cast<std::int64_t>(i) : (i + 1 < bins.size() ? used_from[i + 1] : std::ssize(bins));
    for (std::size_t i = 0; i < bins.size(); ++i) {
      const auto count = static_cast<double>(bins[i]);
      counts[i + 1] = counts[i] + count;
      entropy[i + 1] = entropy[i] + plogp(count);
      used[i + 1] = used[i] + (bins[i] > 0 ? 1.0 : 0.0);
    }
  }

  static double plogp(double p) { return p > 0 ? p * std::log(p) : 0.0; }
};

double divergence(const Histogram& histogram, const RunningSums& sums, const BinRange& range, int bits) {
  const auto at = [](const std::vector<double>& sum, std::int64_t bin) { return sum[static_cast<std::size_t>(bin)]; };
  const auto between = [&](const std::vector<double>& sum, std::int64_t begin, std::int64_t end) {
    return at(sum, end) - at(sum, begin);
  };
  const double all = sums.counts.back();
  const double below = at(sums.counts, range.begin);
  const double above = all - at(sums.counts, range.end);
  const double inside = all - below - above;
  const auto count_at = [&](std::int64_t bin) { return between(sums.counts, bin, bin + 1); };
  if (inside == 0) return std::numeric_limits<double>::infinity();
  // Bins of nothing tell nothing: what is clipped counts at the outermost number that is not.
  const std::int64_t lowest = sums.used_from[static_cast<std::size_t>(range.begin)];
  const std::int64_t highest = sums.used_until[static_cast<std::size_t>(range.end - 1)];

  double sum_p_log_p = between(sums.entropy, range.begin, range.end);
  const auto add_beyond = [&](double beyond, std::int64_t bin) {
    sum_p_log_p += RunningSums::plogp(count_at(bin) + beyond) - RunningSums::plogp(count_at(bin));
  };
  if (lowest == highest) {
    add_beyond(below + above, lowest);
  } else {
    add_beyond(below, lowest);
    add_beyond(above, highest);
  }

  const QParams q = qparams_of(code_range(histogram, range), bits);
  const double bins_per_code = static_cast<double>(q.scale) / bin_width(histogram);
  double sum_p_log_q = 0;
  std::int64_t begin = range.begin;
  for (std::int32_t code = q.lowest; code <= q.highest && begin < range.end; ++code) {
    const double boundary = (code - q.zero_point + 0.5) * bins_per_code - static_cast<double>(histogram.first);
    const std::int64_t end =
        code == q.highest ? range.end : std::clamp(static_cast<std::int64_t>(std::llround(boundary)), begin, range.end);
    const double count = between(sums.counts, begin, end);
    if (count > 0) {
      const double beyond =
          (begin <= lowest && lowest < end ? below : 0.0) + (begin <= highest && highest < end ? above : 0.0);
      sum_p_log_q += (count + beyond) * std::log(count / between(sums.used, begin, end));
    }
    begin = end;
  }
  return (sum_p_log_p - sum_p_log_q) / all - std::log(all) + std::log(inside);
}

}  // namespace

CodeRange percentile_range(const Histogram& histogram, double percentile) {
  if (histogram.counts.empty()) return {};
  const double width = bin_width(histogram);
  const double all = static_cast<double>(numbers_in_bins(histogram) + histogram.zeros);
  const double beyond = all * (1.0 - percentile / 100.0);
  const UsedBins used = used_bins(histogram);
  const auto count = [&](std::int64_t bin) {
    return static_cast<double>(histogram.counts[static_cast<std::size_t>(bin)]);
  };
  CodeRange range;
  double passed = 0;
  for (std::int64_t bin = used.all.end - 1; bin >= used.zero; --bin) {
    passed += count(bin);
    if (passed <= beyond || count(bin) == 0) continue;
    const double share = (passed - beyond) / count(bin);  // of this bin's numbers that stay inside
    range.maximum = (static_cast<double>(histogram.first + bin) + share) * width;
    break;
  }
  passed = 0;
  for (std::int64_t bin = used.all.begin; bin < used.zero; ++bin) {
    passed += count(bin);
    if (passed <= beyond || count(bin) == 0) continue;
    const double share = (passed - beyond) / count(bin);
    range.minimum = (static_cast<double>(histogram.first + bin + 1) - share) * width;
    break;
  }
  return {.minimum = std::min(std::max(range.minimum, histogram.smallest), 0.0),
          .maximum = std::max(std::min(range.maximum, histogram.largest), 0.0)};
}

CodeRange least_squares_range(const Histogram& histogram, int bits) {
  std::vector<float> centers;
  std::vector<float> counts;
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    if (histogram.counts[i] == 0) continue;
    const double center = (static_cast<double>(histogram.first) + static_cast<double>(i) + 0.5) * bin_width(histogram);
    centers.push_back(static_cast<float>(center));
    counts.push_back(static_cast<float>(histogram.counts[i]));
  }
  return search(histogram, 1, [&](const BinRange& range) {
    return quantize_detail::squared_error_row(centers.data(), counts.data(), std::ssize(centers),
                                              qparams_of(code_range(histogram, range), bits));
  });
}

CodeRange least_divergence_range(const Histogram& histogram, int bits) {
  const RunningSums sums(histogram.counts);
  return search(histogram, std::int64_t{1} << bits,
                [&](const BinRange& range) { return divergence(histogram, sums, range, bits); });
}

}  // namespace podaq
