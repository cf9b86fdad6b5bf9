#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "podaq/graph/verify.h"
#include "training/small_net.h"

namespace podaq {
namespace {

using namespace podaq::testing;
namespace nn = torch::nn;
using torch::Tensor;

TEST(GraphModuleForward, EqualsTheModuleInBothModesWithItsGradients) {
  const Pair pair = trained_pair();
  expect_same_network(*pair.net, *pair.captured, torch::randn({2, 2, 8}));
}

// Networks trained side by side share LibTorch's default generator; the same seed then gives another result each time.
TEST(GraphModuleForward, DropoutDrawsFromTheNetworksOwnGenerator) {
  const Pair pair = trained_pair();
  pair.captured->train();
  const Tensor x = torch::randn({4, 2, 8});
  const auto with_seed = [&](std::uint64_t seed) {
    pair.captured->set_generator(at::make_generator<at::CPUGeneratorImpl>(seed));
    return pair.captured->forward(x);
  };
  const Tensor first = with_seed(7);
  const Tensor default_state = at::detail::getDefaultCPUGenerator().get_state();
  EXPECT_TRUE(with_seed(7).equal(first));
  EXPECT_FALSE(with_seed(8).equal(first));
  EXPECT_TRUE(at::detail::getDefaultCPUGenerator().get_state().equal(default_state));
  pair.captured->set_generator(std::nullopt);
  torch::manual_seed(7);
  EXPECT_TRUE(pair.captured->forward(x).equal(first));
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
