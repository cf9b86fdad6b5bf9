#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <string>

#include "support/nets.h"

namespace podaq::testing {

/// conv + batch norm (+ add) + ReLU, a standalone batch norm, linear + batch norm, dropout.
inline std::shared_ptr<FunctionNet> small_net() {
  auto net = std::make_shared<FunctionNet>([](FunctionNet& self, torch::Tensor x) {
    torch::Tensor y = torch::relu(self.layer<torch::nn::BatchNorm1dImpl>("norm1", self.conv1d("conv1", x)));
    y = torch::relu(self.layer<torch::nn::BatchNorm1dImpl>("norm2", self.conv1d("conv2", y)) + y);
    y = self.layer<torch::nn::BatchNorm1dImpl>("alone", torch::max_pool1d(y, 2));
    y = torch::relu(self.layer<torch::nn::BatchNorm1dImpl>("norm3", self.linear("hidden", y.flatten(1))));
    return self.linear("head", torch::dropout(y, 0.25, self.is_training()));
  });
  net->with("conv1", torch::nn::Conv1d(torch::nn::Conv1dOptions(2, 4, 3).padding(1).bias(false)))
      .with("norm1", torch::nn::BatchNorm1d(4))
      .with("conv2", torch::nn::Conv1d(torch::nn::Conv1dOptions(4, 4, 3).padding(1)))
      .with("norm2", torch::nn::BatchNorm1d(4))
      .with("alone", torch::nn::BatchNorm1d(4))
      .with("hidden", torch::nn::Linear(16, 6))
      .with("norm3", torch::nn::BatchNorm1d(6))
      .with("head", torch::nn::Linear(6, 3));
  return net;
}

/// A module and what capture made of it.
struct Pair {
  std::shared_ptr<FunctionNet> net;
  std::shared_ptr<GraphModule> captured;
};

/// Statistics away from their start values, or folding would be the identity.
inline Pair trained_pair() {
  torch::manual_seed(21);
  Pair pair{.net = small_net(), .captured = {}};
  pair.net->train();
  for (int i = 0; i < 5; ++i) pair.net->forward(torch::randn({16, 2, 8}) * 2.0 + 0.5);
  for (const auto& item : pair.net->named_parameters())
    if (item.value().dim() == 1) item.value().set_data(item.value() + 0.3 * torch::randn_like(item.value()));
  pair.captured = capture(pair.net, torch::randn({2, 2, 8}));
  return pair;
}

/// The step that begins with the layer of that name.
inline const Step& step_of(const GraphModule& module, const std::string& layer) {
  return *std::ranges::find_if(module.steps(),
                               [&](const Step& step) { return module.graph().nodes[step.node].name == layer; });
}

}  // namespace podaq::testing
