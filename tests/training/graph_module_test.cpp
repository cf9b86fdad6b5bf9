#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "podaq/graph/passes.h"
#include "podaq/graph/verify.h"
#include "support/nets.h"

namespace podaq {
namespace {

using namespace podaq::testing;
namespace nn = torch::nn;
using torch::Tensor;

// conv + batch norm (+ add) + ReLU, a standalone batch norm, linear + batch norm, dropout.
std::shared_ptr<FunctionNet> small_net() {
  auto net = std::make_shared<FunctionNet>([](FunctionNet& self, Tensor x) {
    Tensor y = torch::relu(self.layer<nn::BatchNorm1dImpl>("norm1", self.conv1d("conv1", x)));
    y = torch::relu(self.layer<nn::BatchNorm1dImpl>("norm2", self.conv1d("conv2", y)) + y);
    y = self.layer<nn::BatchNorm1dImpl>("alone", torch::max_pool1d(y, 2));
    y = torch::relu(self.layer<nn::BatchNorm1dImpl>("norm3", self.linear("hidden", y.flatten(1))));
    return self.linear("head", torch::dropout(y, 0.25, self.is_training()));
  });
  net->with("conv1", nn::Conv1d(nn::Conv1dOptions(2, 4, 3).padding(1).bias(false)))
      .with("norm1", nn::BatchNorm1d(4))
      .with("conv2", nn::Conv1d(nn::Conv1dOptions(4, 4, 3).padding(1)))
      .with("norm2", nn::BatchNorm1d(4))
      .with("alone", nn::BatchNorm1d(4))
      .with("hidden", nn::Linear(16, 6))
      .with("norm3", nn::BatchNorm1d(6))
      .with("head", nn::Linear(6, 3));
  return net;
}

struct Pair {
  std::shared_ptr<FunctionNet> net;
  std::shared_ptr<GraphModule> captured;
};

// Statistics away from their start values, or folding would be the identity.
Pair trained_pair() {
  torch::manual_seed(21);
  Pair pair{.net = small_net(), .captured = {}};
  pair.net->train();
  for (int i = 0; i < 5; ++i) pair.net->forward(torch::randn({16, 2, 8}) * 2.0 + 0.5);
  for (const auto& item : pair.net->named_parameters())
    if (item.value().dim() == 1) item.value().set_data(item.value() + 0.3 * torch::randn_like(item.value()));
  pair.captured = capture(pair.net, torch::randn({2, 2, 8}));
  return pair;
}

const Step& step_of(const GraphModule& module, const std::string& layer) {
  return *std::ranges::find_if(module.steps(),
                               [&](const Step& step) { return module.graph().nodes[step.node].name == layer; });
}

TEST(GraphModuleForward, EqualsTheModuleInBothModesWithItsGradients) {
  const Pair pair = trained_pair();
  expect_same_network(*pair.net, *pair.captured, torch::randn({2, 2, 8}));
}

TEST(GraphModuleForward, RefusesInputsOfAnotherShapeByName) {
  const Pair pair = trained_pair();
  for (const Tensor& wrong : {torch::randn({2, 3, 8}), torch::randn({2, 2, 9}), torch::randn({2, 8}), Tensor()}) {
    try {
      static_cast<void>(pair.captured->forward(wrong));
      FAIL() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_TRUE(contains(error.what(), "'input'")) << error.what();
      EXPECT_TRUE(contains(error.what(), "[batch, 2, 8]")) << error.what();
    }
  }
}

TEST(GraphModuleForward, NeedsMoreThanOneValuePerChannelToTrainABatchNorm) {
  const Pair pair = trained_pair();
  pair.captured->train();
  EXPECT_THROW(static_cast<void>(pair.captured->forward(torch::randn({1, 2, 8}))), Error);
}

TEST(GraphModuleTraining, StepsFromTheSameStateLeaveBothInTheSameState) {
  const Pair pair = trained_pair();
  const auto twin = std::dynamic_pointer_cast<GraphModule>(pair.captured->clone());
  const Tensor x = torch::randn({8, 2, 8});
  const auto train = [&](auto& model) {
    model.train();
    torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(1e-3));
    for (int i = 0; i < 3; ++i) {
      torch::manual_seed(i);
      optimizer.zero_grad();
      model.forward(x).pow(2).mean().backward();
      optimizer.step();
    }
  };
  train(*pair.net);
  train(*twin);
  const auto parameters = twin->named_parameters();
  for (const auto& item : pair.net->named_parameters())
    EXPECT_LE(largest_difference(item.value(), parameters[item.key()]), 1e-4) << item.key();
  const auto buffers = twin->named_buffers();
  for (const auto& item : pair.net->named_buffers())
    EXPECT_LE(largest_difference(item.value().to(torch::kDouble), buffers[item.key()].to(torch::kDouble)), 1e-4)
        << item.key();
}

TEST(GraphModuleTraining, LayersWithoutBiasGoThroughDtypesOptimizerAndCloneC01) {
  torch::manual_seed(22);
  auto net = std::make_shared<FunctionNet>([](FunctionNet& self, Tensor x) {
    return self.linear("head", torch::relu(self.layer<nn::BatchNorm1dImpl>("norm", self.conv1d("conv", x))).mean(2));
  });
  net->with("conv", nn::Conv1d(nn::Conv1dOptions(2, 8, 3).bias(false)))
      .with("norm", nn::BatchNorm1d(8))
      .with("head", nn::Linear(nn::LinearOptions(8, 4).bias(false)));
  auto model = capture(net, torch::randn({2, 2, 16}));
  const auto all_defined = [](const GraphModule& module) {
    const auto parameters = module.parameters();
    return parameters.size() == 4 &&
           std::ranges::all_of(parameters, [](const Tensor& tensor) { return tensor.defined(); });
  };
  ASSERT_TRUE(all_defined(*model));
  model->to(torch::kDouble);
  model->to(torch::kFloat);
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-2));
  model->train();
  for (int i = 0; i < 3; ++i) {
    optimizer.zero_grad();
    model->forward(torch::randn({8, 2, 16})).pow(2).sum().backward();
    optimizer.step();
    ASSERT_TRUE(all_defined(*model));
  }
  const auto copy = std::dynamic_pointer_cast<GraphModule>(model->clone());
  ASSERT_TRUE(copy && all_defined(*copy));
  model->eval();
  copy->eval();
  const Tensor x = torch::randn({3, 2, 16});
  EXPECT_TRUE(model->forward(x).equal(copy->forward(x)));
}

TEST(GraphModuleTraining, FrozenParametersStayFrozenC02) {
  torch::manual_seed(23);
  auto net = small_net();
  net->named_parameters()["conv1.weight"].set_requires_grad(false);
  const auto captured = capture(net, torch::randn({2, 2, 8}));
  EXPECT_FALSE(captured->tensor("conv1.weight").requires_grad());
  EXPECT_TRUE(captured->tensor("conv2.weight").requires_grad());
  const Tensor frozen = captured->tensor("conv1.weight").clone();
  const Tensor learning = captured->tensor("conv2.weight").detach().clone();
  torch::optim::SGD optimizer(captured->parameters(), torch::optim::SGDOptions(0.05).weight_decay(1e-2));
  captured->train();
  for (int i = 0; i < 5; ++i) {
    optimizer.zero_grad();
    captured->forward(torch::randn({8, 2, 8})).pow(2).sum().backward();
    optimizer.step();
  }
  EXPECT_TRUE(frozen.equal(captured->tensor("conv1.weight")));
  EXPECT_FALSE(learning.equal(captured->tensor("conv2.weight")));
  EXPECT_FALSE(std::dynamic_pointer_cast<GraphModule>(captured->clone())->tensor("conv1.weight").requires_grad());
}

TEST(GraphModuleClone, OwnsItsTensorsAndKeepsFlagsButNoHooks) {
  const Pair pair = trained_pair();
  pair.captured->train();
  pair.captured->freeze_batch_norms();
  pair.captured->set_value_hook(pair.captured->graph().inputs[0], [](const Tensor& x, bool) { return x * 0.0; });
  const auto copy = std::dynamic_pointer_cast<GraphModule>(pair.captured->clone());
  EXPECT_TRUE(copy->is_training());
  EXPECT_TRUE(copy->batch_norms_frozen());
  {
    const torch::NoGradGuard no_grad;
    copy->tensor("head.weight").zero_();
  }
  EXPECT_GT(pair.captured->tensor("head.weight").abs().max().item<float>(), 0.0F);
  pair.captured->clear_hooks();
  pair.captured->eval();
  copy->eval();
  {
    const torch::NoGradGuard no_grad;
    copy->tensor("head.weight").copy_(pair.captured->tensor("head.weight"));
  }
  const Tensor x = torch::randn({3, 2, 8});
  EXPECT_TRUE(copy->forward(x).equal(pair.captured->forward(x)));
}

TEST(GraphModuleSnapshot, IsACompleteGraphOfThePresentValues) {
  const Pair pair = trained_pair();
  const Graph snapshot = pair.captured->snapshot();
  verify(snapshot);
  const Tensor& weight = pair.captured->tensor("conv2.weight");
  const auto values = elements<float>(tensor_at(snapshot, "conv2.weight"));
  const Tensor rows = weight.detach().contiguous();
  EXPECT_TRUE(std::ranges::equal(values, std::span(rows.const_data_ptr<float>(), values.size())));
  EXPECT_EQ(elements<std::int32_t>(tensor_at(snapshot, "norm1.num_batches_tracked"))[0], 5);
  EXPECT_THROW(static_cast<void>(pair.captured->tensor("nothing")), Error);
}

// Hooks.

TEST(GraphModuleHooks, TrainingHooksTheWeightAndKeepsBatchStatistics) {
  const Pair pair = trained_pair();
  const Step& step = step_of(*pair.captured, "conv1");
  LayerParameters seen;
  pair.captured->set_parameter_hook(step.output, [&](const LayerParameters& parameters) {
    seen = parameters;
    return LayerParameters{.weight = parameters.weight * 0.5, .bias = parameters.bias, .bias_is_final = true};
  });
  pair.captured->train();
  const Tensor x = torch::randn({8, 2, 8});
  torch::manual_seed(1);
  const Tensor got = pair.captured->forward(x);
  EXPECT_TRUE(seen.weight.is_same(pair.captured->tensor("conv1.weight")));
  EXPECT_FALSE(seen.bias.defined());
  EXPECT_FALSE(seen.bias_is_final);
  pair.captured->clear_hooks();
  {
    const torch::NoGradGuard no_grad;
    pair.captured->tensor("conv1.weight").mul_(0.5);
  }
  torch::manual_seed(1);
  EXPECT_LE(largest_difference(pair.captured->forward(x), got), 1e-5);
}

TEST(GraphModuleHooks, EvalHooksTheFoldedPairAsConversionFoldsIt) {
  const Pair pair = trained_pair();
  pair.captured->eval();
  const Graph fused = fuse(pair.captured->snapshot());
  for (const char* layer : {"conv1", "conv2", "hidden", "head", "alone"}) {
    LayerParameters seen;
    const Step& step = step_of(*pair.captured, layer);
    pair.captured->set_parameter_hook(step.output, [&](const LayerParameters& parameters) {
      seen = parameters;
      return parameters;
    });
    static_cast<void>(pair.captured->forward(torch::randn({2, 2, 8})));
    pair.captured->clear_hooks();
    EXPECT_TRUE(seen.bias_is_final) << layer;
    const auto node = std::ranges::find(fused.nodes, layer, &Node::name);
    ASSERT_NE(node, fused.nodes.end()) << layer;
    for (const auto& [got, name] : {std::pair{seen.weight, node->tensors[0]}, std::pair{seen.bias, node->tensors[1]}}) {
      const auto& converted = tensor_at(fused, name);
      ASSERT_EQ(Shape(got.sizes().begin(), got.sizes().end()), converted.shape) << name;
      const Tensor rows = got.detach().contiguous();
      const std::span hooked(rows.const_data_ptr<float>(), static_cast<std::size_t>(rows.numel()));
      const auto folded = elements<float>(converted);
      ASSERT_EQ(folded.size(), hooked.size());
      for (std::size_t i = 0; i < folded.size(); ++i) EXPECT_EQ(folded[i], hooked[i]) << name << " at " << i;
    }
  }
}

TEST(GraphModuleHooks, IdentityHooksChangeNothing) {
  const Pair pair = trained_pair();
  const Tensor x = torch::randn({8, 2, 8});
  for (const bool training : {true, false}) {
    pair.captured->clear_hooks();
    pair.captured->train(training);
    torch::manual_seed(2);
    const Tensor expected = pair.captured->forward(x);
    for (const Step& step : pair.captured->steps()) {
      pair.captured->set_value_hook(step.output, [](const Tensor& value, bool) { return value; });
      if (!pair.captured->graph().nodes[step.node].tensors.empty())
        pair.captured->set_parameter_hook(step.output, [](const LayerParameters& parameters) { return parameters; });
    }
    torch::manual_seed(2);
    EXPECT_LE(largest_difference(expected, pair.captured->forward(x)), 1e-5);
  }
}

TEST(GraphModuleHooks, FoldedParametersPassGradientsToWeightGammaAndBeta) {
  const Pair pair = trained_pair();
  pair.captured->eval();
  const Tensor x = torch::randn({4, 2, 8});
  for (const Step& step : pair.captured->steps())
    if (!pair.captured->graph().nodes[step.node].tensors.empty())
      pair.captured->set_parameter_hook(step.output, [](const LayerParameters& parameters) { return parameters; });
  pair.net->eval();
  const auto reference = gradients(*pair.net, x);
  const auto got = gradients(*pair.captured, x);
  const auto names = pair.net->named_parameters().keys();
  const auto captured_names = pair.captured->named_parameters().keys();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto at = std::ranges::find(captured_names, names[i]) - captured_names.begin();
    EXPECT_LE(largest_difference(reference[i + 1], got[static_cast<std::size_t>(at) + 1]), 1e-3) << names[i];
  }
}

TEST(GraphModuleHooks, ValueHooksSeeInputsAndStepOutputsInTheGraphsShape) {
  const Pair pair = trained_pair();
  const Graph& graph = pair.captured->graph();
  std::map<ValueId, Shape> shapes;
  std::vector<bool> modes;
  const auto observe = [&](ValueId value) {
    pair.captured->set_value_hook(value, [&, value](const Tensor& tensor, bool training) {
      shapes[value] = {tensor.sizes().begin() + 1, tensor.sizes().end()};
      modes.push_back(training);
      return tensor;
    });
  };
  observe(graph.inputs[0]);
  for (const Step& step : pair.captured->steps()) observe(step.output);
  pair.captured->eval();
  static_cast<void>(pair.captured->forward(torch::randn({2, 2, 8})));
  ASSERT_EQ(shapes.size(), pair.captured->steps().size() + 1);
  for (const auto& [value, shape] : shapes) EXPECT_EQ(shape, graph.values[value].shape) << graph.values[value].name;
  EXPECT_TRUE(std::ranges::none_of(modes, [](bool training) { return training; }));
}

TEST(GraphModuleHooks, TheHookOfAFusedAddSeesTheValueAfterAddAndClamp) {
  const Pair pair = trained_pair();
  pair.captured->eval();
  const Step& step = step_of(*pair.captured, "conv2");
  ASSERT_TRUE(step.add && step.clamp);
  Tensor seen;
  pair.captured->set_value_hook(step.output, [&](const Tensor& value, bool) { return seen = value; });
  const Tensor x = torch::randn({3, 2, 8});
  static_cast<void>(pair.captured->forward(x));
  pair.net->eval();
  auto& net = *pair.net;
  const Tensor y = torch::relu(net.layer<nn::BatchNorm1dImpl>("norm1", net.conv1d("conv1", x)));
  const Tensor expected = torch::relu(net.layer<nn::BatchNorm1dImpl>("norm2", net.conv1d("conv2", y)) + y);
  EXPECT_LE(largest_difference(expected, seen), 1e-5);
}

TEST(GraphModuleHooks, RefuseValuesInsideAStep) {
  const Pair pair = trained_pair();
  const Step& step = step_of(*pair.captured, "conv1");
  const ValueId inside = pair.captured->graph().nodes[step.node].output;
  EXPECT_THROW(pair.captured->set_value_hook(inside, [](const Tensor& value, bool) { return value; }), Error);
  EXPECT_THROW(pair.captured->set_parameter_hook(inside, [](const LayerParameters& p) { return p; }), Error);
}

TEST(GraphModuleHooks, SurviveAGammaOfZero) {
  for (const float gamma : {0.0F, 1e-8F, -1.0F}) {
    const Pair pair = trained_pair();
    {
      const torch::NoGradGuard no_grad;
      pair.captured->tensor("norm1.weight")[1] = gamma;
    }
    for (const Step& step : pair.captured->steps())
      if (!pair.captured->graph().nodes[step.node].tensors.empty())
        pair.captured->set_parameter_hook(step.output, [](const LayerParameters& parameters) { return parameters; });
    for (const bool training : {true, false}) {
      pair.captured->train(training);
      for (const Tensor& gradient : gradients(*pair.captured, torch::randn({6, 2, 8})))
        EXPECT_TRUE(gradient.isfinite().all().item<bool>()) << gamma;
    }
    for (const Tensor& buffer : pair.captured->buffers()) EXPECT_TRUE(buffer.isfinite().all().item<bool>());
  }
}

// Frozen batch norms.

TEST(GraphModuleFrozenBatchNorms, KeepTheirStatisticsBytesWhileTheirWeightsLearn) {
  const Pair pair = trained_pair();
  pair.captured->freeze_batch_norms();
  std::vector<Tensor> before;
  for (const Tensor& buffer : pair.captured->buffers()) before.push_back(buffer.clone());
  const Tensor gamma = pair.captured->tensor("norm1.weight").detach().clone();
  torch::optim::SGD optimizer(pair.captured->parameters(), torch::optim::SGDOptions(0.05));
  pair.captured->eval();
  pair.captured->train();
  for (int i = 0; i < 3; ++i) {
    optimizer.zero_grad();
    pair.captured->forward(torch::randn({1, 2, 8})).pow(2).sum().backward();
    optimizer.step();
  }
  EXPECT_TRUE(pair.captured->batch_norms_frozen());
  const auto after = pair.captured->buffers();
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(before[i].equal(after[i])) << i;
  EXPECT_FALSE(gamma.equal(pair.captured->tensor("norm1.weight")));
}

TEST(GraphModuleFrozenBatchNorms, TrainOnTheFunctionOfEvalMode) {
  const Pair pair = trained_pair();
  const Tensor x = torch::randn({4, 2, 8});
  pair.net->eval();
  const Tensor expected = pair.net->forward(x);
  pair.captured->freeze_batch_norms();
  pair.captured->train();
  // Dropout is the one thing that still differs, and it follows the last hidden layer.
  Tensor hidden;
  pair.captured->set_value_hook(step_of(*pair.captured, "hidden").output,
                                [&](const Tensor& value, bool) { return hidden = value; });
  static_cast<void>(pair.captured->forward(x));
  EXPECT_LE(largest_difference(expected, pair.net->linear("head", hidden)), 1e-5);
}

// Threads.

TEST(GraphModuleThreads, FourWorkersInferWithoutGraphsC14) {
  const Pair pair = trained_pair();
  pair.captured->eval();
  const Tensor x = torch::randn({8, 2, 8});
  Tensor expected;
  {
    const torch::NoGradGuard no_grad;
    expected = pair.captured->forward(x);
  }
  std::vector<Tensor> before;
  for (const Tensor& buffer : pair.captured->buffers()) before.push_back(buffer.clone());
  std::atomic<int> wrong = 0, with_graph = 0;
  std::vector<std::thread> workers;
  for (int worker = 0; worker < 4; ++worker)
    workers.emplace_back([&] {
      const torch::NoGradGuard no_grad;
      for (int i = 0; i < 50; ++i) {
        const Tensor output = pair.captured->forward(x);
        wrong += output.equal(expected) ? 0 : 1;
        with_graph += output.grad_fn() == nullptr && !output.requires_grad() ? 0 : 1;
      }
    });
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(with_graph, 0);
  const auto after = pair.captured->buffers();
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(before[i].equal(after[i]));
}

}  // namespace
}  // namespace podaq
