#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "compress/agreement.h"
#include "podaq/compress/compressor.h"
#include "podaq/training/graph_module.h"

namespace podaq::test {

/// Random numbers for every input of the network.
inline std::vector<torch::Tensor> random_inputs(const GraphModule& model, std::int64_t batch) {
  std::vector<torch::Tensor> inputs;
  for (const ValueId input : model.graph().inputs) {
    std::vector<std::int64_t> shape = model.graph().values[input].shape;
    shape.insert(shape.begin(), batch);
    inputs.push_back(torch::randn(shape));
  }
  return inputs;
}

/// Quantizes `model` on random inputs for a few steps, so that observers and batch norms have seen data.
inline Compressor quantized(const std::shared_ptr<GraphModule>& model, QuantizeRecipe recipe = {},
                            const std::function<void()>& before_convert = {}) {
  torch::manual_seed(11);
  torch::optim::SGD optimizer(model->parameters(), 1e-4);
  Compressor compressor(model, {.epochs = {.quantize = 1, .freeze_batch_norm = 1}, .quantize = std::move(recipe)});
  compressor.attach(optimizer, {.steps_per_epoch = 4});
  model->train();
  for (; compressor.epoch() < compressor.epochs(); compressor.end_epoch())
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      torch::Tensor loss = torch::zeros({});
      for (const torch::Tensor& output : model->forward(random_inputs(*model, 16)))
        loss = loss + (output - 1).square().mean();
      loss.backward();
      optimizer.step();
      compressor.step();
    }
  if (before_convert) before_convert();
  return compressor;
}

/// Values as the network has them, to compare one by one.
constexpr ConvertOptions with_all_channels{.remove_dead_channels = false};

/// Converts, and compares with the network in eval mode: end to end, then each node by itself on equal input codes.
inline Graph expect_agreement(const std::shared_ptr<GraphModule>& model, const Compressor& compressor) {
  Graph graph = compressor.convert(with_all_channels);
  const std::vector<torch::Tensor> inputs = random_inputs(*model, 70);
  model->eval();
  const torch::NoGradGuard no_grad;
  const std::vector<torch::Tensor> expected = model->forward(inputs);
  const std::vector<torch::Tensor> got = run_graph(graph, inputs);
  EXPECT_EQ(expected.size(), got.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double largest = expected[i].abs().max().item<double>();
    EXPECT_FALSE(got[i].isnan().any().item<bool>());
    EXPECT_LT((got[i] - expected[i]).abs().max().item<double>(), 0.05 * largest + 1e-5) << "output " << i;
    EXPECT_LT((got[i] - expected[i]).abs().mean().item<double>(), 0.005 * largest + 1e-6) << "output " << i;
  }
  for (const NodeDistance& distance : node_distances(graph, record_values(*model, graph, inputs)))
    EXPECT_LE(distance.steps, distance.is_float ? 1e-5 : 1.001) << distance.node;
  return graph;
}

}  // namespace podaq::test
