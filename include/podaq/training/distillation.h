#pragma once

#include <torch/types.h>

#include <memory>
#include <string>

#include "podaq/training/graph_module.h"

namespace podaq {

/// How much a student listens to its teacher.
struct DistillationOptions {
  double weight = 0.5;       ///< Share of the teacher in the loss, in [0, 1]; 0: labels alone.
  double temperature = 4.0;  ///< Both softmaxes divide their logits by it, in (0, 1000].
};

/// weight * T^2 * KL(softmax(teacher / T) || softmax(student / T)) + (1 - weight) * label_loss, a mean over the batch
/// (Hinton, Vinyals & Dean, arXiv 1503.02531; T^2 keeps the gradients' size independent of T). No gradient reaches the
/// teacher. Throws Error(invalid_argument) naming an option outside its range, or logits of different shapes.
/// @param student     logits [batch, classes].
/// @param teacher     logits [batch, classes].
/// @param label_loss  what the student would be trained with alone, for instance a cross-entropy: a scalar.
[[nodiscard]] torch::Tensor distillation_loss(const torch::Tensor& student, const torch::Tensor& teacher,
                                              const torch::Tensor& label_loss, const DistillationOptions& options = {});

/// A trained network that others learn from: a copy in eval mode that never changes.
class Teacher {
 public:
  /// Copies `model`, without its hooks.
  explicit Teacher(const GraphModule& model);

  /// Its logits, without gradients. Input as for GraphModule::forward.
  [[nodiscard]] torch::Tensor logits(const torch::Tensor& input) const;

  /// SHA-256 of its structure, parameters and buffers, in hexadecimal: checkpoints name the teacher by it.
  [[nodiscard]] const std::string& hash() const { return hash_; }

 private:
  std::shared_ptr<GraphModule> model_;
  std::string hash_;
};

}  // namespace podaq
