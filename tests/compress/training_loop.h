#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>

#include "podaq/compress/compressor.h"
#include "podaq/training/graph_module.h"

namespace podaq::test {

/// Noisy tones whose pitch is the class: [count, channels, length] and labels.
struct Batch {
  torch::Tensor samples, labels;
};

inline Batch make_batch(std::int64_t count, std::int64_t channels, std::int64_t length, std::int64_t classes) {
  const torch::Tensor labels = torch::randint(classes, {count}, torch::kLong);
  const torch::Tensor time = torch::arange(length, torch::kFloat).reshape({1, 1, length});
  const torch::Tensor pitch =
      (labels.to(torch::kFloat) + 1).reshape({count, 1, 1}) * 3.14159F / (static_cast<float>(classes) + 1);
  const torch::Tensor phase = torch::rand({count, channels, 1}) * 6.28318F;
  return {.samples = torch::sin(pitch * time + phase) + 0.3 * torch::randn({count, channels, length}),
          .labels = labels};
}

inline void train_step(GraphModule& model, torch::optim::Optimizer& optimizer, const Batch& batch) {
  optimizer.zero_grad();
  torch::nn::functional::cross_entropy(model.forward(batch.samples), batch.labels).backward();
  optimizer.step();
}

using AfterStep = std::function<void()>;

/// The loop of the README, to the end of the recipe, on batches from `next_batch`.
inline void run_recipe(GraphModule& model, torch::optim::Optimizer& optimizer, Compressor& compressor,
                       std::int64_t steps_per_epoch, const std::function<Batch()>& next_batch,
                       const AfterStep& after_step = {}) {
  for (; compressor.epoch() < compressor.epochs(); compressor.end_epoch()) {
    model.train();
    for (std::int64_t step = 0; step < steps_per_epoch; ++step) {
      train_step(model, optimizer, next_batch());
      compressor.step();
      if (after_step) after_step();
    }
  }
}

}  // namespace podaq::test
