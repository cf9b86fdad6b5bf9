#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compress/network_builder.h"
#include "compress/training_loop.h"
#include "podaq/compress/compressor.h"
#include "podaq/training/random_sampler.h"

namespace podaq::test {

/// All six stages, an epoch each.
inline Recipe full_recipe() {
  return {
      .epochs = {.dense = 1, .prune = 1, .recover = 1, .quantize = 1, .freeze_batch_norm = 1, .freeze_observers = 1},
      .prune = PruneRecipe{.sparsity = 0.75},
      .quantize = QuantizeRecipe{}};
}

/// One process's training run: network, optimizer with two groups, sampler, compressor. The network takes {2, 16} and
/// has four outputs.
struct TrainingRun {
  std::shared_ptr<GraphModule> model;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  std::unique_ptr<RandomSampler> sampler;
  std::unique_ptr<Compressor> compressor;
  Batch data;

  static constexpr std::int64_t samples = 80;
  static constexpr std::int64_t batch = 16;
  static constexpr std::int64_t steps_per_epoch = 5;

  TrainingRun(std::uint64_t seed, const std::string& kind, double learning_rate, double weight_decay,
              const Recipe& recipe = full_recipe(), std::shared_ptr<GraphModule> network = nullptr) {
    torch::manual_seed(21);
    data = make_batch(samples, 2, 16, 4);
    torch::manual_seed(seed);
    model = network ? std::move(network) : small_classifier(2, 16, 4, seed);
    model->train();
    std::vector<torch::Tensor> weights;
    std::vector<torch::Tensor> others;
    for (const torch::Tensor& parameter : model->parameters())
      (parameter.dim() > 1 ? weights : others).push_back(parameter);
    const auto make = [&]<typename Optimizer, typename Options>(Options options) {
      std::vector<torch::optim::OptimizerParamGroup> groups;
      groups.emplace_back(weights, std::make_unique<Options>(Options(options).weight_decay(weight_decay)));
      groups.emplace_back(others, std::make_unique<Options>(Options(options).weight_decay(0)));
      optimizer = std::make_unique<Optimizer>(groups, options);
    };
    if (kind == "Adam") make.operator()<torch::optim::Adam>(torch::optim::AdamOptions(learning_rate));
    if (kind == "AdamW") make.operator()<torch::optim::AdamW>(torch::optim::AdamWOptions(learning_rate));
    if (kind == "SGD") make.operator()<torch::optim::SGD>(torch::optim::SGDOptions(learning_rate).momentum(0.9));
    if (kind == "RMSprop") make.operator()<torch::optim::RMSprop>(torch::optim::RMSpropOptions(learning_rate));
    sampler = std::make_unique<RandomSampler>(samples, seed);
    compressor = std::make_unique<Compressor>(model, recipe);
    compressor->attach(*optimizer, *sampler, {.steps_per_epoch = steps_per_epoch});
  }

  void step() {
    if (!std::exchange(is_in_epoch, true)) sampler->reset();
    const auto indices = sampler->next(batch).value();
    const std::vector<std::int64_t> rows(indices.begin(), indices.end());
    const torch::Tensor index = torch::tensor(rows, torch::kLong);
    // Noise and dropout alike draw on LibTorch's own random state.
    const torch::Tensor samples_of_step = data.samples.index_select(0, index) + 0.1 * torch::randn({batch, 2, 16});
    train_step(*model, *optimizer, {samples_of_step, data.labels.index_select(0, index)});
    compressor->step();
  }

  void train(std::int64_t steps) {
    for (; steps > 0; --steps) {
      step();
      if (++steps_in_epoch < steps_per_epoch) continue;
      steps_in_epoch = 0;
      is_in_epoch = false;
      compressor->end_epoch();
    }
  }

  void resume(const std::filesystem::path& path, std::int64_t steps_done) {
    compressor->load_checkpoint(path);
    steps_in_epoch = steps_done % steps_per_epoch;
    is_in_epoch = false;
  }

  std::int64_t steps_in_epoch = 0;
  bool is_in_epoch = false;
};

}  // namespace podaq::test
