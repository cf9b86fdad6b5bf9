#pragma once

#include <cstdint>

#include "image_classification/image_task.h"

namespace podaq::images {

/// How large the table of the thesis's strategy is trained.
struct GoldbargOptions {
  std::int64_t epochs = 4;  ///< 1 to 1000: of each of the 16 networks, from fresh weights.
  double share = 0.25;      ///< In (0, 1]: of the 54 000 training images, from each class alike.
};

/// The thesis's table for CNN-A, on Fashion-MNIST: the recipe [goldbarg] at alpha 0, 0.25, 0.5, 0.75 and float, 8, 4
/// and 3 bits; "alpha0-float" is the dense network. Throws as make_task does, and Error(invalid_argument) naming an
/// option outside its range.
[[nodiscard]] Task make_goldbarg_task(const TaskOptions& options, const GoldbargOptions& goldbarg);

}  // namespace podaq::images
