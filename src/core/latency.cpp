#include "podaq/core/latency.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "podaq/core/cancellation.h"
#include "podaq/core/error.h"

namespace podaq {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds_per_call(const Contestant& contestant, double seconds) {
  const auto start = Clock::now();
  std::int64_t calls = 0;
  double elapsed = 0;
  do {
    contestant.run();
    ++calls;
    elapsed = std::chrono::duration<double>(Clock::now() - start).count();
  } while (elapsed < seconds);
  return elapsed * 1e6 / static_cast<double>(calls);
}

double quantile(const std::vector<double>& sorted, double share) {
  const double position = share * static_cast<double>(sorted.size() - 1);
  const auto lower = static_cast<std::size_t>(position);
  const std::size_t upper = std::min(lower + 1, sorted.size() - 1);
  return sorted[lower] + (sorted[upper] - sorted[lower]) * (position - static_cast<double>(lower));
}

}  // namespace

std::vector<Latency> measure_latency(std::span<const Contestant> contestants, const LatencyOptions& options) {
  if (options.rounds < 1) throw Error(ErrorCode::invalid_argument, "measure_latency: rounds must be at least 1");
  if (!(options.seconds_per_round > 0))
    throw Error(ErrorCode::invalid_argument, "measure_latency: seconds_per_round must be greater than 0");
  std::vector<std::vector<double>> times(contestants.size());
  for (int round = -1; round < options.rounds; ++round)
    for (std::size_t i = 0; i < contestants.size(); ++i) {
      throw_if_cancelled();
      const double time = microseconds_per_call(contestants[i], options.seconds_per_round);
      if (round >= 0) times[i].push_back(time);
    }
  std::vector<Latency> result;
  for (std::vector<double>& sorted : times) {
    std::sort(sorted.begin(), sorted.end());
    result.push_back(
        {.median_us = quantile(sorted, 0.5), .p10_us = quantile(sorted, 0.1), .p90_us = quantile(sorted, 0.9)});
  }
  return result;
}

}  // namespace podaq
