// Hooks on parameters and values, and frozen batch norms.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "podaq/core/error.h"
#include "podaq/graph/passes.h"
#include "training/small_net.h"

namespace podaq {
namespace {

using namespace podaq::testing;
namespace nn = torch::nn;
using torch::Tensor;

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

TEST(GraphModuleHooks, TensorsAreChangedBeforeBatchNormsAreFoldedIntoThem) {
  const Pair pair = trained_pair();
  const Tensor x = torch::randn({8, 2, 8});
  for (const bool training : {true, false})
    for (const std::string name : {"conv2.weight", "conv2.bias", "head.bias"}) {
      pair.captured->train(training);
      const Tensor tensor = pair.captured->tensor(name);
      pair.captured->set_tensor_hook(name, [](const Tensor& own) { return own.round() + 0.25; });
      torch::manual_seed(1);
      const Tensor got = pair.captured->forward(x);
      got.square().sum().backward();
      pair.captured->set_tensor_hook(name, {});
      const Tensor before = tensor.detach().clone();
      {
        const torch::NoGradGuard no_grad;
        tensor.copy_(before.round() + 0.25);
        torch::manual_seed(1);
        EXPECT_TRUE(pair.captured->forward(x).equal(got)) << name;
        tensor.copy_(before);
        torch::manual_seed(1);
        EXPECT_FALSE(pair.captured->forward(x).equal(got)) << name << ": the hook is still there";
      }
    }
}

TEST(GraphModuleHooks, OfTensorsStandOnlyOnWeightsAndBiases) {
  const Pair pair = trained_pair();
  for (const std::string name : {"norm1.weight", "nowhere.weight", ""})
    EXPECT_THROW(pair.captured->set_tensor_hook(name, [](const Tensor& own) { return own; }), Error) << name;
  pair.captured->eval();
  const Tensor x = torch::randn({2, 2, 8});
  const Tensor before = pair.captured->forward(x);
  pair.captured->set_tensor_hook("conv1.weight", [](const Tensor& own) { return own * 2; });
  EXPECT_TRUE(pair.captured->folded_parameters(step_of(*pair.captured, "head"))
                  .weight.equal(pair.captured->tensor("head.weight")));
  pair.captured->clear_hooks();
  EXPECT_TRUE(pair.captured->forward(x).equal(before));
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

}  // namespace
}  // namespace podaq
