// What must not be captured, or not be changed by capturing.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include "support/nets.h"

namespace podaq {
namespace {

using namespace podaq::testing;
namespace nn = torch::nn;
namespace F = torch::nn::functional;
using torch::Tensor;
using torch::indexing::Slice;

const Tensor& sample() {
  static const Tensor tensor = torch::ones({2, 2, 8});
  return tensor;
}

TEST(CaptureRefuses, WriteIntoASliceOfALiveTensorC04) {
  const std::vector<std::function<Tensor(Tensor)>> forms = {
      [](Tensor y) {
        y.slice(1, 0, 2).copy_(torch::sigmoid(y.slice(1, 0, 2)));
        return y;
      },
      [](Tensor y) {
        y.index_put_({Slice(), Slice(0, 2)}, torch::sigmoid(y.index({Slice(), Slice(0, 2)})));
        return y;
      },
      [](Tensor y) {
        y.copy_(torch::sigmoid(y));
        return y;
      }};
  for (const auto& form : forms) {
    const std::string text = refusal(after_conv1d(form), sample());
    EXPECT_TRUE(contains(text, "aten::copy_")) << text;
    EXPECT_TRUE(contains(text, "'conv'")) << text;
  }
}

TEST(CaptureRefuses, InPlaceOperationOnAViewOfALiveTensor) {
  const auto net = after_conv1d([](Tensor y) {
    Tensor view = y.flatten(1);
    view.relu_();
    return y;
  });
  const std::string text = refusal(net, sample());
  EXPECT_TRUE(contains(text, "aten::relu_")) << text;
  EXPECT_TRUE(contains(text, "'conv'")) << text;
}

TEST(CaptureRefuses, TensorDataSwappedWhileTracingC05) {
  const auto net = after_conv1d([](const Tensor& y) {
    Tensor a = y * 0.0;
    const Tensor b = y * 1.0;
    a.set_data(b);
    return a;
  });
  const std::string text = refusal(net, sample());
  EXPECT_TRUE(contains(text, "differs by up to")) << text;
}

TEST(CaptureOf, ViewWithTheBatchReadIntoANumberFollowsTheBatchC07) {
  const auto net = after_conv1d([](const Tensor& y) { return y.view({y.size(0), 2, -1}); });
  const auto captured = capture(net, sample());
  net->eval();
  captured->eval();
  for (const std::int64_t batch : {1, 3, 4, 6}) {
    const Tensor x = torch::randn({batch, 2, 8});
    const Tensor got = captured->forward(x);
    EXPECT_EQ(got.sizes(), (std::vector<std::int64_t>{batch, 2, 16}));
    EXPECT_LE(largest_difference(net->forward(x), got), 1e-6);
  }
}

TEST(CaptureRefuses, BatchSizeWrittenIntoAViewC07) {
  const std::string text = refusal(after_conv1d([](const Tensor& y) { return y.view({2, 2, -1}); }), sample());
  EXPECT_TRUE(contains(text, "aten::view")) << text;
  const std::string reshape = refusal(after_conv1d([](const Tensor& y) { return y.reshape({-1, 16}); }), sample());
  EXPECT_TRUE(contains(reshape, "aten::reshape")) << reshape;
}

TEST(CaptureRefuses, DropoutThatStaysOnInEvalModeC08) {
  const auto net = after_conv1d([](const Tensor& y) { return F::dropout(y, F::DropoutFuncOptions().p(0.5)); });
  net->eval();
  const std::string text = refusal(net, sample());
  EXPECT_TRUE(contains(text, "aten::dropout")) << text;
  EXPECT_TRUE(contains(text, "eval mode")) << text;
}

TEST(CaptureRefuses, ForwardThatBranchesOnTheData) {
  const auto net = after_conv1d([](const Tensor& y) { return y.mean().item<float>() > 0 ? torch::relu(y) : -y; });
  const torch::NoGradGuard no_grad;
  for (const auto& parameter : net->named_parameters())  // so that the mean has the sign of the input's
    parameter->fill_(contains(parameter.key(), "bias") ? 0.0 : 0.1);
  static_cast<void>(refusal(net, sample()));
}

TEST(CaptureRefuses, ForwardThatDiffersBetweenTheModes) {
  auto net = std::make_shared<FunctionNet>([](FunctionNet& self, Tensor x) {
    const Tensor y = self.conv1d("conv", x);
    return self.is_training() ? y : torch::softmax(y, 1);
  });
  net->with("conv", nn::Conv1d(2, 4, 3));
  const std::string text = refusal(net, sample());
  EXPECT_TRUE(contains(text, "train mode")) << text;
}

TEST(CaptureRefuses, WhatItHasNoOperationForByNameAndLayer) {
  const std::string cumsum = refusal(after_conv1d([](const Tensor& y) { return y.cumsum(1); }), sample());
  EXPECT_TRUE(contains(cumsum, "aten::cumsum")) << cumsum;
  EXPECT_TRUE(contains(cumsum, "'conv'")) << cumsum;
  const std::string detach = refusal(after_conv1d([](const Tensor& y) { return y.detach(); }), sample());
  EXPECT_TRUE(contains(detach, "aten::detach")) << detach;
  const std::string transposed = refusal(after_conv1d([](const Tensor& y) { return y.transpose(1, 2); }), sample());
  EXPECT_TRUE(contains(transposed, "aten::transpose")) << transposed;
  nn::Sequential norm(nn::Conv1d(2, 4, 3), nn::LayerNorm(nn::LayerNormOptions({6})));
  const std::string layer_norm = refusal(norm.ptr(), sample());
  EXPECT_TRUE(contains(layer_norm, "aten::layer_norm")) << layer_norm;
  EXPECT_TRUE(contains(layer_norm, "in layer '1'")) << layer_norm;
}

TEST(CaptureRefuses, ChangesToTheModulesOwnTensors) {
  auto net = std::make_shared<FunctionNet>([](FunctionNet& self, Tensor x) {
    self.named_buffers()["calls"].add_(1.0);
    return self.conv1d("conv", x);
  });
  net->with("conv", nn::Conv1d(2, 4, 3));
  net->register_buffer("calls", torch::zeros({1}));
  const std::string text = refusal(net, sample());
  EXPECT_TRUE(contains(text, "'calls'")) << text;
  EXPECT_EQ(net->named_buffers()["calls"].item<float>(), 0.0F);
}

TEST(CaptureRefuses, WeightsThatAreComputedOrNotRegistered) {
  auto net = std::make_shared<FunctionNet>(
      [](FunctionNet& self, Tensor x) { return torch::conv1d(x, self.named_parameters()["conv.weight"] * 2.0); });
  net->with("conv", nn::Conv1d(2, 4, 3));
  static_cast<void>(refusal(net, sample()));
  const Tensor loose = torch::randn({4, 2, 3});
  static_cast<void>(
      refusal(after_conv1d([&](const Tensor& y) { return torch::conv1d(y.slice(1, 0, 2), loose); }), sample()));
}

TEST(CaptureRefuses, ArgumentsOutsideTheirRange) {
  const auto net = after_conv1d([](const Tensor& y) { return y; });
  EXPECT_THROW(static_cast<void>(capture(net, Tensor())), Error);
  EXPECT_THROW(static_cast<void>(capture(net, torch::zeros({2, 2, 8}, torch::kLong))), Error);
  EXPECT_THROW(static_cast<void>(capture(net, sample(), {.tolerance = 0.0})), Error);
  EXPECT_THROW(static_cast<void>(capture(net, sample(), {.input_names = {"a", "b"}})), Error);
  EXPECT_THROW(static_cast<void>(capture(net, torch::zeros({2, 3, 8}))), Error);  // three channels where it has two
}

// Everything of a module that a capture must leave alone.
struct Observed {
  std::vector<Tensor> tensors, gradients;
  std::vector<bool> flags;
  Tensor sample, random;
};

Observed observe(const nn::Module& net, const Tensor& input) {
  Observed observed;
  for (const Tensor& tensor : net.parameters()) {
    observed.tensors.push_back(tensor.detach().clone());
    observed.gradients.push_back(tensor.grad().defined() ? tensor.grad().clone() : Tensor());
  }
  for (const Tensor& tensor : net.buffers()) observed.tensors.push_back(tensor.clone());
  for (const auto& part : net.modules(false)) observed.flags.push_back(part->is_training());
  observed.sample = input.clone();
  observed.random = at::globalContext().defaultGenerator(at::kCPU).get_state();
  return observed;
}

void expect_unchanged(const Observed& before, const Observed& after) {
  for (std::size_t i = 0; i < before.tensors.size(); ++i)
    EXPECT_TRUE(before.tensors[i].equal(after.tensors[i])) << "tensor " << i;
  for (std::size_t i = 0; i < before.gradients.size(); ++i) {
    ASSERT_EQ(before.gradients[i].defined(), after.gradients[i].defined());
    if (before.gradients[i].defined()) {
      EXPECT_TRUE(before.gradients[i].equal(after.gradients[i]));
    }
  }
  EXPECT_EQ(before.flags, after.flags);
  EXPECT_TRUE(before.sample.equal(after.sample));
  EXPECT_TRUE(before.random.equal(after.random));
}

nn::Sequential net_with_everything(bool can_be_captured) {
  nn::Sequential net(nn::Conv1d(2, 4, 3), nn::BatchNorm1d(4), nn::ReLU(nn::ReLUOptions(true)), nn::Dropout(0.5),
                     nn::Flatten(), nn::Linear(24, 3));
  if (!can_be_captured) net->push_back(nn::Softsign());
  net->forward(torch::randn({4, 2, 8})).sum().backward();
  net[1]->eval();
  net[3]->eval();
  return net;
}

TEST(CaptureLeavesAlone, BuffersFlagsGradientsSampleAndRandomState) {
  torch::manual_seed(9);
  nn::Sequential net = net_with_everything(true);
  const Tensor input = torch::randn({3, 2, 8});
  const Observed before = observe(*net, input);
  static_cast<void>(capture(net.ptr(), input));
  expect_unchanged(before, observe(*net, input));
}

TEST(CaptureLeavesAlone, TheSameWhenItThrows) {
  torch::manual_seed(9);
  nn::Sequential net = net_with_everything(false);
  const Tensor input = torch::randn({3, 2, 8});
  const Observed before = observe(*net, input);
  EXPECT_THROW(static_cast<void>(capture(net.ptr(), input)), Error);
  expect_unchanged(before, observe(*net, input));
}

TEST(CaptureLeavesAlone, TheSampleThatTheForwardWritesInto) {
  auto net = std::make_shared<FunctionNet>([](FunctionNet& self, Tensor x) { return self.conv1d("conv", x.relu_()); });
  net->with("conv", nn::Conv1d(2, 4, 3));
  const Tensor input = torch::randn({3, 2, 8});
  const Tensor copy = input.clone();
  const auto captured = capture(net, input);
  EXPECT_TRUE(copy.equal(input));
  static_cast<void>(captured->forward(input));
  EXPECT_TRUE(copy.equal(input));
}

TEST(CaptureOf, ABatchNormWithOneValuePerChannelAtBatchOneC13) {
  torch::manual_seed(10);
  nn::Sequential net(nn::Conv1d(2, 4, 8), nn::BatchNorm1d(4));
  net->eval();
  const Tensor input = torch::randn({1, 2, 8});
  const Observed before = observe(*net, input);
  const auto captured = capture(net.ptr(), input);
  expect_unchanged(before, observe(*net, input));
  EXPECT_FALSE(net->is_training());
  EXPECT_FALSE(captured->is_training());
  EXPECT_LE(largest_difference(net->forward(input), captured->forward(input)), 1e-6);
}

TEST(CaptureOf, TheSameGraphWhateverTheModulesMode) {
  torch::manual_seed(11);
  nn::Sequential net = net_with_everything(true);
  net->train();
  const Graph in_train_mode = capture(net.ptr(), torch::randn({3, 2, 8}))->graph();
  net->eval();
  const Graph in_eval_mode = capture(net.ptr(), torch::randn({1, 2, 8}))->graph();
  EXPECT_EQ(in_train_mode, in_eval_mode);
}

}  // namespace
}  // namespace podaq
