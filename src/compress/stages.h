#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "podaq/compress/recipe.h"

namespace podaq::compress_detail {

/// Every stage with its length, in the order they run, which is the enumerators' too.
inline constexpr std::array stage_lengths = {std::pair{Stage::dense, &StageLengths::dense},
                                             std::pair{Stage::prune, &StageLengths::prune},
                                             std::pair{Stage::recover, &StageLengths::recover},
                                             std::pair{Stage::quantize, &StageLengths::quantize},
                                             std::pair{Stage::freeze_batch_norm, &StageLengths::freeze_batch_norm},
                                             std::pair{Stage::freeze_observers, &StageLengths::freeze_observers},
                                             std::pair{Stage::goldbarg, &StageLengths::goldbarg}};

/// How long a stage lasts, in epochs.
[[nodiscard]] constexpr double length_of(const StageLengths& epochs, Stage stage) {
  return epochs.*stage_lengths.at(static_cast<std::size_t>(stage)).second;
}

/// The epochs until a stage's end.
[[nodiscard]] constexpr double epochs_until_end(const StageLengths& epochs, Stage last) {
  double sum = 0;
  for (const auto& [stage, length] : stage_lengths)
    if (stage <= last) sum += epochs.*length;
  return sum;
}

}  // namespace podaq::compress_detail
