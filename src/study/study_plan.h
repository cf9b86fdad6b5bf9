#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "podaq/study/study.h"

// What a study trains, and under which names it keeps it.

namespace podaq::study_detail {

/// Where something trained is kept. Its name holds the SHA-256 of all that it depends on, so that a file of that name
/// is never of something else.
struct KeptAs {
  std::string inputs;          ///< All that it depends on, as text.
  std::filesystem::path stem;  ///< Path without extension.

  /// The path with `extension`, such as ".json".
  [[nodiscard]] std::filesystem::path with(const char* extension) const { return stem.string() + extension; }
};

/// The dense epochs that the points of one seed and one length of training start from.
struct SharedTraining {
  std::uint64_t seed = 0;
  TrainOptions training;  ///< Of these epochs.
  KeptAs kept;
};

/// The epochs that it takes: a fraction is trained as a whole one.
[[nodiscard]] std::int64_t epochs_of(const SharedTraining& shared);

/// One strategy with one seed.
struct Point {
  const Strategy* strategy = nullptr;
  std::uint64_t seed = 0;
  std::optional<std::size_t> shared = {};   ///< Index of the shared training; none: an untrained network.
  std::optional<std::size_t> teacher = {};  ///< Index of the point that teaches.
  std::int64_t own_epochs = 0;              ///< 0: the recipe only calibrates.
  TrainOptions training = {};               ///< Of its own epochs.
  KeptAs kept = {};
};

/// Everything there is to do. Points that others learn from come before them.
struct StudyPlan {
  std::vector<SharedTraining> shared;
  std::vector<Point> points;  ///< Seed by seed, in the order of training.
};

/// Throws Error(invalid_argument) and Error(recipe) as `run_study` does for what cannot be trained; points into
/// `study`.
[[nodiscard]] StudyPlan make_plan(const Study& study);

}  // namespace podaq::study_detail
