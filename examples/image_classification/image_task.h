#pragma once

#include <filesystem>

#include "podaq/study/study_file.h"
#include "podaq/study/task.h"

namespace podaq::images {

/// What the command line chooses.
struct TaskOptions {
  std::filesystem::path data = "/usr/share/datasets/fashion-mnist";  ///< Debian's dataset-fashion-mnist.
  std::filesystem::path folder = {};  ///< Holds recipes/; empty: the source tree's examples/image_classification.
};

/// What a study file's [task] chooses: data, the folder of the IDX files. Throws Error(recipe) for other keys.
[[nodiscard]] TaskOptions task_options(const TaskWords& words);

/// Fashion-MNIST with CNN-A: 54 000 training, 6 000 validation and 10 000 test images.
/// Throws Error naming the file where data or a recipe does not load.
[[nodiscard]] Task make_task(const TaskOptions& options);

}  // namespace podaq::images
