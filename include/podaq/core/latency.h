#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace podaq {

/// Something to time: one call is one inference.
struct Contestant {
  std::string name;           ///< What the result is listed under.
  std::function<void()> run;  ///< One inference.
};

/// Microseconds per call.
struct Latency {
  double median_us = 0;  ///< Median of all rounds.
  double p10_us = 0;     ///< A tenth of the rounds is faster.
  double p90_us = 0;     ///< A tenth of the rounds is slower.
};

/// How latencies are measured.
struct LatencyOptions {
  int rounds = 31;                   ///< >= 1: every round times each contestant once, in turn.
  double seconds_per_round = 0.005;  ///< > 0: calls are repeated within a round until this much time has passed.
};

/// Times the contestants in interleaved rounds, so that drift of a shared machine meets all of them, after one untimed
/// round. Statistics are over rounds, each the mean of its calls.
[[nodiscard]] std::vector<Latency> measure_latency(std::span<const Contestant> contestants,
                                                   const LatencyOptions& options = {});

}  // namespace podaq
