#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>

#include "podaq/prune/schedule.h"

namespace podaq {

/// Masks that move while the schedule's ramp lasts: every so many steps each layer prunes a share of its weights and
/// takes as many pruned ones back, where the loss falls fastest. Source: Evci et al., arXiv 1911.11134 (RigL), §3; here
/// units (see Pattern) that a move drops are not taken back by the same move.
struct Regrowth {
  std::int64_t every = 100;  ///< Steps between moves, from the schedule's `begin` on; 1 to 10^8.
  double fraction = 0.3;     ///< Of the units left, at the start; falls to 0 along half a cosine. In (0, 1].
};

/// Which field is outside its range; empty where none is.
[[nodiscard]] std::string problem_with(const Regrowth& regrowth);

/// fraction / 2 * (1 + cos(pi * (step - begin) / (end - begin))); 0 outside the ramp.
[[nodiscard]] double regrow_fraction_at(const Regrowth& regrowth, const SparsitySchedule& schedule, std::int64_t step);

/// The pruned units after a move, as many as before: of those left, the floor(fraction * left) with the lowest score
/// are dropped, but at least one stays and not more than there are pruned; as many of the pruned are taken back, those
/// with the largest gradient. The lower index goes first among equals, both ways. All on the CPU.
/// @param pruned    bool [units].
/// @param scores    [units], as `with_pruned_first` makes them.
/// @param gradient  [units], sums of |gradient|; NaN counts as 0.
[[nodiscard]] torch::Tensor regrown_units(const torch::Tensor& pruned, const torch::Tensor& scores,
                                          const torch::Tensor& gradient, double fraction);

}  // namespace podaq
