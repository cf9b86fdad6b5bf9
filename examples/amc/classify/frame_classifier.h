#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "podaq/runtime/model.h"
#include "podaq/runtime/runner.h"

namespace podaq::amc {

/// A modulation classifier from a .podaq file.
class FrameClassifier {
 public:
  /// Throws `Error` (invalid_argument), saying what was found, unless the model has one input of shape {2, L}, one
  /// output of shape {C}, and names for C classes in its metadata ("classes", separated by commas, as `amc` writes
  /// them).
  explicit FrameClassifier(Model model);

  /// L, complex samples of one frame.
  [[nodiscard]] std::size_t frame_length() const noexcept { return frame_length_; }
  /// C names.
  [[nodiscard]] const std::vector<std::string>& class_names() const noexcept { return class_names_; }

  /// The probability of each class (softmax of the network's outputs), until the next call. Scales `frame`, of shape
  /// {2, L} and finite, to a mean power of 1 as training does. Probabilities are NaN where an output is.
  [[nodiscard]] std::span<const double> classify(std::span<float> frame);

 private:
  Runner runner_;
  std::size_t frame_length_ = 0;
  std::vector<std::string> class_names_;
  std::vector<float> outputs_;
  std::vector<double> probabilities_;
};

}  // namespace podaq::amc
