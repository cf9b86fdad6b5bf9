#pragma once

#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "podaq/capture/capture.h"
#include "podaq/data/counter_random.h"
#include "podaq/study/task.h"

namespace podaq::test {

/// Convolutions, a batch norm, pooling, dropout and a linear layer: [N, 2, 16] to 3 classes.
class SmallNet : public torch::nn::Module {
 public:
  SmallNet() {
    features_->push_back(torch::nn::Conv1d(torch::nn::Conv1dOptions(2, 16, 3).padding(1).bias(false)));
    features_->push_back(torch::nn::BatchNorm1d(16));
    features_->push_back(torch::nn::ReLU());
    features_->push_back(torch::nn::MaxPool1d(2));
    features_->push_back(torch::nn::Conv1d(torch::nn::Conv1dOptions(16, 16, 3).padding(1)));
    features_->push_back(torch::nn::ReLU());
    features_->push_back(torch::nn::Dropout(0.1));
    register_module("features", features_);
    head_ = register_module("head", torch::nn::Linear(16, 3));
  }
  torch::Tensor forward(const torch::Tensor& x) { return head_(features_->forward(x).mean(2)); }

 private:
  torch::nn::Sequential features_;
  torch::nn::Linear head_{nullptr};
};

/// Three waveforms in noise; groups -10 and 10 stand for a noisy and a clean channel.
inline Dataset waveforms(std::int64_t size, std::uint64_t seed) {
  constexpr std::int64_t length = 16;
  Dataset dataset{
      .sample_shape = {2, length}, .samples = {}, .labels = {}, .groups = {}, .class_names = {"a", "b", "c"}};
  for (std::int64_t i = 0; i < size; ++i) {
    const auto label = static_cast<std::int32_t>(i % 3);
    const std::int32_t group = i % 2 == 0 ? -10 : 10;
    std::vector<float> noise(2 * length);
    CounterRandom random({.seed = seed, .words = {static_cast<std::uint32_t>(i), 0, 0}});
    random.fill_gaussian(noise);
    for (std::int64_t j = 0; j < 2 * length; ++j) {
      const float wave = std::sin(0.4F * static_cast<float>((label + 1) * (j % length)));
      dataset.samples.push_back(wave + (group < 0 ? 1.0F : 0.1F) * noise[static_cast<std::size_t>(j)]);
    }
    dataset.labels.push_back(label);
    dataset.groups.push_back(group);
  }
  return dataset;
}

/// A task's load_data: sets of these sizes.
inline auto waveform_sets(std::int64_t train, std::int64_t validation, std::int64_t test) {
  return [=](std::uint64_t seed, int) {
    return TaskData{.train = waveforms(train, 3 * seed),
                    .validation = waveforms(validation, 3 * seed + 1),
                    .test = waveforms(test, 3 * seed + 2)};
  };
}

inline Task small_task() {
  Task task;
  task.name = "small";
  task.load_data = waveform_sets(900, 150, 301);
  task.make_network = [](std::uint64_t seed) {
    torch::manual_seed(seed);
    const auto module = std::make_shared<SmallNet>();
    return TaskNetwork{.module = module,
                       .forward = [module](const torch::Tensor& x) { return module->forward(x); },
                       .captured = capture(module, torch::zeros({2, 2, 16}))};
  };
  task.training = {.batch_size = 32, .learning_rate = 1e-2};
  task.shared_epochs = 2;
  task.strategies = {
      {"dense", Recipe::parse("[epochs]\ndense = 4\n")},
      {"prune_quantize", Recipe::parse("[epochs]\nprune = 1\nrecover = 1\nquantize = 0.5\nfreeze_batch_norm = 0.5\n"
                                       "freeze_observers = 1\n[prune]\nsparsity = 0.6\n[quantize]\n")},
  };
  return task;
}

}  // namespace podaq::test
