#pragma once

#include <torch/torch.h>

#include <functional>
#include <string>

#include "compress/network_builder.h"
#include "compress/refusals.h"
#include "compress/training_loop.h"
#include "podaq/compress/sensitivity.h"
#include "podaq/core/error.h"
#include "podaq/training/graph_module.h"

namespace podaq::test {

/// Progress that nobody sees.
inline SensitivityOptions quiet(const std::filesystem::path& file = {}) {
  return {.file = file, .progress = {.write = [](std::string_view) {}}};
}

/// The cross entropy on a batch.
inline ValidationFunction cross_entropy_on(const Batch& batch) {
  return [batch](GraphModule& network) {
    return torch::nn::functional::cross_entropy(network.forward(batch.samples), batch.labels).item<double>();
  };
}

/// small_classifier after some training on tones of its own.
inline std::shared_ptr<GraphModule> trained_classifier(std::int64_t steps = 60) {
  torch::manual_seed(11);
  auto model = small_classifier();
  torch::optim::Adam optimizer(model->parameters(), 0.01);
  model->train();
  for (std::int64_t step = 0; step < steps; ++step) train_step(*model, optimizer, make_batch(32, 2, 16, 4));
  model->eval();
  return model;
}

inline Batch validation_batch(std::int64_t count = 128) {
  torch::manual_seed(12);
  return make_batch(count, 2, 16, 4);
}

}  // namespace podaq::test
