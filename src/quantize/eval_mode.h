#pragma once

#include "podaq/training/graph_module.h"

namespace podaq::quantize_detail {

/// Puts a network into eval mode for as long as it lives.
class EvalMode {
 public:
  explicit EvalMode(GraphModule& model) : model_(model), was_training_(model.is_training()) { model.eval(); }
  ~EvalMode() { model_.train(was_training_); }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  GraphModule& model_;
  bool was_training_;
};

}  // namespace podaq::quantize_detail
