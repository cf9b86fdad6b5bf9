#pragma once

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "podaq/quantize/calibrate.h"
#include "podaq/quantize/network_quantizer.h"
#include "podaq/training/graph_module.h"

namespace podaq::test {

/// Random batches of 16 for the network's inputs.
inline std::vector<CalibrationBatch> random_batches(const GraphModule& model, int count) {
  std::vector<CalibrationBatch> batches;
  for (int i = 0; i < count; ++i) {
    CalibrationBatch& batch = batches.emplace_back();
    for (const ValueId input : model.graph().inputs) {
      std::vector<std::int64_t> shape = model.graph().values[input].shape;
      shape.insert(shape.begin(), 16);
      batch.push_back(torch::randn(shape));
    }
  }
  return batches;
}

/// Batch norms as training leaves them: statistics, weights and biases that differ from channel to channel.
inline void unsettle_batch_norms(GraphModule& model) {
  const torch::NoGradGuard no_grad;
  for (const auto& item : model.named_buffers()) {
    torch::Tensor buffer = item.value();
    if (item.key().ends_with("running_mean")) buffer.normal_(0, 0.3);
    if (item.key().ends_with("running_var")) buffer.uniform_(0.3, 2);
  }
}

inline NetworkQuantizer quantizer_of(GraphModule& model, const WeightQuantization& weight,
                                     const ObserverOptions& observer = MinMaxObserver{}) {
  Placement placement = place_quantizers(model.graph(), model.steps(), [](const Node&) { return true; });
  return {model,
          std::move(placement),
          {.weights = std::vector<WeightQuantization>(model.steps().size(), weight), .observer = observer}};
}

/// The outputs of the first output in eval mode, all batches below each other.
inline torch::Tensor outputs(GraphModule& model, const std::vector<CalibrationBatch>& batches) {
  const torch::NoGradGuard no_grad;
  const bool was_training = model.is_training();
  model.eval();
  std::vector<torch::Tensor> results;
  for (const CalibrationBatch& batch : batches) results.push_back(model.forward(batch).at(0));
  model.train(was_training);
  return torch::cat(results);
}

}  // namespace podaq::test
