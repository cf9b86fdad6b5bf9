#pragma once

#include <cstdint>

namespace podaq {

/// How the target sparsity grows with the optimizer's steps. With s0 the initial and s1 the final sparsity and p in
/// [0, 1] the part of [begin, end] that is done:
enum class ScheduleKind : std::uint8_t {
  constant,     ///< s1 from `begin` on.
  one_shot,     ///< s0 until `end`, s1 from then on: all at once, after criteria that gather have seen the whole stage.
  linear,       ///< s1 + (s0 - s1)(1 - p).
  cubic,        ///< s1 + (s0 - s1)(1 - p)^3: fast at first, slow at the end; Zhu & Gupta, arXiv 1710.01878.
  exponential,  ///< 1 - (1 - s0)((1 - s1)/(1 - s0))^p: the weights left shrink by equal ratios; as NNCF's.
  iterative,    ///< The exponential's values, but taken in `rounds` jumps at the ends of as many equal parts.
};

/// A sparsity that depends on the number of optimizer steps done.
struct SparsitySchedule {
  ScheduleKind kind = ScheduleKind::cubic;  ///< The ramp's form.
  double initial_sparsity = 0.0;            ///< Until `begin`; in [0, 1).
  double final_sparsity = 0.0;              ///< From `end` on; in [0, 1).
  std::int64_t begin = 0;                   ///< Steps done when the ramp starts.
  std::int64_t end = 0;                     ///< Steps done when the ramp has reached its end; >= begin.
  std::int64_t update_every = 1;            ///< Between `begin` and `end` the target moves only every so many steps.
  std::int64_t rounds = 1;                  ///< iterative: how many jumps; at least 1.
};

/// The target sparsity after `step` optimizer steps: `initial_sparsity` before `begin` and exactly `final_sparsity`
/// from `end` on; with begin == end it jumps there.
[[nodiscard]] double sparsity_at(const SparsitySchedule& schedule, std::int64_t step);

/// How many of an iterative schedule's rounds are over after `step` optimizer steps; 0 for other kinds.
[[nodiscard]] std::int64_t rounds_at(const SparsitySchedule& schedule, std::int64_t step);

/// `step` as the schedule takes it: between `begin` and `end` rounded down to a whole number of `update_every`.
[[nodiscard]] std::int64_t updated_step(const SparsitySchedule& schedule, std::int64_t step);

}  // namespace podaq
