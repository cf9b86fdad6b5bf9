#pragma once

#include <filesystem>
#include <string>

#include "amc/networks.h"
#include "podaq/study/study_file.h"
#include "podaq/study/task.h"

namespace podaq::amc {

/// What the command line chooses.
struct TaskOptions {
  std::string preset = "quick";  ///< "quick": 11 classes, 128 samples; "full": 24 classes, 1024 samples.
  NetworkKind network = NetworkKind::vgg10;
  double scale = 1;                   ///< In (0, 100]: the share of the preset's frames to synthesize, for trials.
  std::filesystem::path folder = {};  ///< Holds recipes/ and impairments/; empty: the source tree's examples/amc.
};

/// What a study file's [task] chooses: preset, network, scale. Throws Error(recipe) for other keys and words.
[[nodiscard]] TaskOptions task_options(const TaskWords& words);

/// Automatic modulation classification on synthesized frames: data, network, training and the four strategies.
/// Throws Error for an unknown preset or a recipe that does not load.
[[nodiscard]] Task make_task(const TaskOptions& options);

}  // namespace podaq::amc
