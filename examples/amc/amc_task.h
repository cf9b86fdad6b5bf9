#pragma once

#include <filesystem>
#include <string>

#include "amc/frame_file.h"
#include "amc/networks.h"
#include "podaq/study/study_file.h"
#include "podaq/study/task.h"

namespace podaq::amc {

/// What the command line chooses.
struct TaskOptions {
  std::string preset = "quick";  ///< "quick": 11 classes, 128 samples; "full": 24 classes, 1024 samples.
  NetworkKind network = NetworkKind::vgg10;
  double scale = 1;                   ///< In (0, 100]: the share of the preset's frames to synthesize, for trials.
  FrameFileOptions data = {};         ///< With a file: frames come from it, in place of the synthesizer; the preset
                                      ///< then chooses how they are trained on alone.
  std::filesystem::path folder = {};  ///< Holds recipes/ and impairments/; empty: the source tree's examples/amc.
};

/// What a study file's [task] chooses: preset, network, scale, or data with split, frames_per_cell and memory_gib
/// (`FrameFileOptions`), paths from where the program runs. Throws Error(recipe) for other keys and words.
[[nodiscard]] TaskOptions task_options(const TaskWords& words);

/// Automatic modulation classification on synthesized frames, or those of a file: data, network, training and the four
/// strategies. Throws Error for an unknown preset, a recipe that does not load, or a file as `FrameFile` does.
[[nodiscard]] Task make_task(const TaskOptions& options);

}  // namespace podaq::amc
