#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "support/nets.h"

namespace podaq {
namespace {

using namespace podaq::testing;
namespace F = torch::nn::functional;
using torch::Tensor;

struct OperationCase {
  std::string name;
  std::function<Tensor(const Tensor&)> body;
  std::string op;  // must occur in the graph
  bool two_dimensional = false;
};

std::ostream& operator<<(std::ostream& stream, const OperationCase& test_case) {
  return stream << test_case.name;
}

class CapturedOperation : public ::testing::TestWithParam<OperationCase> {};

TEST_P(CapturedOperation, ComputesWhatTheModuleComputes) {
  torch::manual_seed(3);
  const OperationCase& test_case = GetParam();
  const auto net = test_case.two_dimensional ? after_conv2d(test_case.body) : after_conv1d(test_case.body);
  const Tensor sample = test_case.two_dimensional ? torch::randn({2, 2, 8, 12}) : torch::randn({2, 2, 12});
  const auto captured = capture(net, sample);
  const auto has_op = [&](const Node& node) { return name_of(node.op) == test_case.op; };
  EXPECT_TRUE(std::ranges::any_of(captured->graph().nodes, has_op)) << test_case.op;
  expect_same_network(*net, *captured, sample);
}

const std::vector<OperationCase> elementwise = {
    {"Relu", [](const Tensor& x) { return torch::relu(x); }, "clamp"},
    {"ReluInPlace", [](Tensor x) { return torch::relu_(x); }, "clamp"},
    {"Relu6", [](const Tensor& x) { return F::relu6(x * 9.0); }, "clamp"},
    {"Hardtanh", [](const Tensor& x) { return F::hardtanh(x); }, "clamp"},
    {"ClampBoth", [](const Tensor& x) { return torch::clamp(x, -0.5, 0.25); }, "clamp"},
    {"ClampLow", [](const Tensor& x) { return x.clamp(0.125); }, "clamp"},
    {"ClampMin", [](const Tensor& x) { return x.clamp_min(-0.25); }, "clamp"},
    {"ClampMaxInPlace", [](Tensor x) { return x.clamp_max_(0.25); }, "clamp"},
    {"Sigmoid", [](const Tensor& x) { return torch::sigmoid(x); }, "activation"},
    {"Tanh", [](const Tensor& x) { return torch::tanh(x); }, "activation"},
    {"Silu", [](const Tensor& x) { return F::silu(x); }, "activation"},
    {"Selu", [](const Tensor& x) { return F::selu(x); }, "activation"},
    {"Elu", [](const Tensor& x) { return F::elu(x, F::ELUFuncOptions().alpha(0.7)); }, "activation"},
    {"LeakyRelu", [](const Tensor& x) { return F::leaky_relu(x, F::LeakyReLUFuncOptions().negative_slope(0.2)); },
     "activation"},
    {"Hardsigmoid", [](const Tensor& x) { return torch::hardsigmoid(x * 4.0); }, "activation"},
    {"Hardswish", [](const Tensor& x) { return torch::hardswish(x * 4.0); }, "activation"},
    {"Gelu", [](const Tensor& x) { return F::gelu(x); }, "activation"},
    {"GeluTanh", [](const Tensor& x) { return F::gelu(x, F::GELUFuncOptions().approximate("tanh")); }, "activation"},
    {"AddNumber", [](const Tensor& x) { return x + 1.5; }, "affine"},
    {"MultiplyNumber", [](const Tensor& x) { return 0.25 * x; }, "affine"},
    {"MultiplyTensorNumber", [](const Tensor& x) { return x * torch::tensor(2.5); }, "affine"},
    {"SubtractNumber", [](const Tensor& x) { return x - 0.5; }, "affine"},
    {"NumberMinus", [](const Tensor& x) { return 1 - x; }, "affine"},
    {"DivideNumber", [](const Tensor& x) { return x / 4; }, "affine"},
    {"Negate", [](const Tensor& x) { return -x; }, "affine"},
    {"AddInPlaceNumber", [](Tensor x) { return x += 2.0; }, "affine"},
    {"AddBranches", [](const Tensor& x) { return torch::sigmoid(x) + torch::tanh(x); }, "add"},
    {"AddScaledBranch", [](const Tensor& x) { return torch::add(torch::sigmoid(x), x, 0.5); }, "add"},
    {"SubtractBranches", [](const Tensor& x) { return torch::sigmoid(x) - x; }, "add"},
    {"AddToItself", [](const Tensor& x) { return x + x; }, "add"},
    {"MultiplyBranches", [](const Tensor& x) { return x * torch::sigmoid(x); }, "mul"},
    {"SoftmaxChannels", [](const Tensor& x) { return torch::softmax(x, 1); }, "softmax"},
    {"LogSoftmaxLast", [](const Tensor& x) { return F::log_softmax(x, -1); }, "softmax"},
};

const std::vector<OperationCase> shapes = {
    {"Flatten", [](const Tensor& x) { return x.flatten(1); }, "reshape"},
    {"ViewWithBatch",
     [](const Tensor& x) {
       return x.view({x.size(0), 8, -1});
     },
     "reshape"},
    {"ViewMinusOne",
     [](const Tensor& x) {
       return x.view({-1, 48});
     },
     "reshape"},
    {"Reshape",
     [](const Tensor& x) {
       return x.reshape({x.size(0), 2, 24});
     },
     "reshape"},
    {"UnsqueezeSqueeze", [](const Tensor& x) { return torch::relu(x.unsqueeze(2)).squeeze(2); }, "reshape"},
    {"PermuteOfOnes",
     [](const Tensor& x) {
       return x.unsqueeze(1).permute({0, 2, 1, 3});
     },
     "reshape"},
    {"ConcatChannels",
     [](const Tensor& x) {
       return torch::cat({x, torch::relu(x)}, 1);
     },
     "concat"},
    {"ConcatLast",
     [](const Tensor& x) {
       return torch::cat({torch::relu(x), x}, -1);
     },
     "concat"},
    {"CopiesThatChangeNothing", [](const Tensor& x) { return torch::relu(x.contiguous().to(torch::kFloat).clone()); },
     "clamp"},
};

const std::vector<OperationCase> pooling = {
    {"MaxPool1d", [](const Tensor& x) { return torch::max_pool1d(x, 2); }, "max_pool"},
    {"MaxPool1dPaddedDilated", [](const Tensor& x) { return torch::max_pool1d(x, 3, 1, 1, 2); }, "max_pool"},
    {"MaxPool1dCeil", [](const Tensor& x) { return torch::max_pool1d(x, 5, 4, 0, 1, true); }, "max_pool"},
    {"AvgPool1d", [](const Tensor& x) { return torch::avg_pool1d(x, 3, 2, 1); }, "avg_pool"},
    {"AvgPool1dNotCounted", [](const Tensor& x) { return torch::avg_pool1d(x, 3, 2, 1, false, false); }, "avg_pool"},
    {"AvgPool1dCeil", [](const Tensor& x) { return torch::avg_pool1d(x, 5, 4, 0, true); }, "avg_pool"},
    {"AdaptiveMean1dDivides", [](const Tensor& x) { return torch::adaptive_avg_pool1d(x, 4); }, "avg_pool"},
    {"AdaptiveMean1dUneven", [](const Tensor& x) { return torch::adaptive_avg_pool1d(x, 5); }, "adaptive_pool"},
    {"AdaptiveMean1dOne", [](const Tensor& x) { return torch::adaptive_avg_pool1d(x, 1); }, "global_mean"},
    {"AdaptiveMax1dDivides", [](const Tensor& x) { return std::get<0>(torch::adaptive_max_pool1d(x, 3)); }, "max_pool"},
    {"AdaptiveMax1dUneven", [](const Tensor& x) { return std::get<0>(torch::adaptive_max_pool1d(x, 7)); },
     "adaptive_pool"},
    {"AdaptiveMax1dOne", [](const Tensor& x) { return std::get<0>(torch::adaptive_max_pool1d(x, 1)); }, "global_max"},
    {"MeanLast", [](const Tensor& x) { return x.mean(-1); }, "global_mean"},
    {"MeanKeepDimension", [](const Tensor& x) { return x.mean(2, true); }, "global_mean"},
    {"Amax", [](const Tensor& x) { return x.amax({2}); }, "global_max"},
    {"MaxValues", [](const Tensor& x) { return std::get<0>(x.max(2)); }, "global_max"},
};

const std::vector<OperationCase> planes = {
    {"MaxPool2d",
     [](const Tensor& x) {
       return torch::max_pool2d(x, {2, 3});
     },
     "max_pool", true},
    {"MaxPool2dCeilPadded", [](const Tensor& x) { return torch::max_pool2d(x, 3, 2, 1, 1, true); }, "max_pool", true},
    {"AvgPool2d", [](const Tensor& x) { return torch::avg_pool2d(x, 2); }, "avg_pool", true},
    {"AvgPool2dCeil", [](const Tensor& x) { return torch::avg_pool2d(x, 3, 3, 0, true); }, "avg_pool", true},
    {"AdaptiveMean2dDivides",
     [](const Tensor& x) {
       return torch::adaptive_avg_pool2d(x, {4, 3});
     },
     "avg_pool", true},
    {"AdaptiveMean2dUneven",
     [](const Tensor& x) {
       return torch::adaptive_avg_pool2d(x, {3, 5});
     },
     "adaptive_pool", true},
    {"AdaptiveMean2dOne",
     [](const Tensor& x) {
       return torch::adaptive_avg_pool2d(x, {1, 1});
     },
     "global_mean", true},
    {"MeanPlane",
     [](const Tensor& x) {
       return x.mean({2, 3});
     },
     "global_mean", true},
    {"FlattenPlane", [](const Tensor& x) { return x.flatten(1); }, "reshape", true},
    {"ConcatHeight",
     [](const Tensor& x) {
       return torch::cat({x, torch::tanh(x)}, 2);
     },
     "concat", true},
    {"SoftmaxHeight", [](const Tensor& x) { return torch::softmax(x, 2); }, "softmax", true},
};

std::string name_of_case(const ::testing::TestParamInfo<OperationCase>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Elementwise, CapturedOperation, ::testing::ValuesIn(elementwise), name_of_case);
INSTANTIATE_TEST_SUITE_P(Shapes, CapturedOperation, ::testing::ValuesIn(shapes), name_of_case);
INSTANTIATE_TEST_SUITE_P(Pooling, CapturedOperation, ::testing::ValuesIn(pooling), name_of_case);
INSTANTIATE_TEST_SUITE_P(Planes, CapturedOperation, ::testing::ValuesIn(planes), name_of_case);

struct ConvCase {
  std::string name;
  std::int64_t kernel = 3, stride = 1, dilation = 1, groups = 1, padding = 0;
  bool same = false, bias = true;
};

std::ostream& operator<<(std::ostream& stream, const ConvCase& test_case) {
  return stream << test_case.name;
}

class CapturedConv : public ::testing::TestWithParam<ConvCase> {};

template <std::size_t dimensions>
torch::nn::ConvOptions<dimensions> options_of(const ConvCase& test_case) {
  torch::nn::ConvOptions<dimensions> options(4, 8, test_case.kernel);
  options.stride(test_case.stride).dilation(test_case.dilation).groups(test_case.groups).bias(test_case.bias);
  if (test_case.same)
    options.padding(torch::kSame);
  else
    options.padding(test_case.padding);
  return options;
}

TEST_P(CapturedConv, ComputesWhatTheModuleComputesIn1D) {
  torch::manual_seed(4);
  torch::nn::Sequential net(torch::nn::Conv1d(options_of<1>(GetParam())));
  const Tensor sample = torch::randn({2, 4, 15});
  const auto captured = capture(net.ptr(), sample);
  expect_same_network(*net, *captured, sample);
}

TEST_P(CapturedConv, ComputesWhatTheModuleComputesIn2D) {
  torch::manual_seed(5);
  torch::nn::Sequential net(torch::nn::Conv2d(options_of<2>(GetParam())));
  const Tensor sample = torch::randn({2, 4, 15, 11});
  const auto captured = capture(net.ptr(), sample);
  expect_same_network(*net, *captured, sample);
}

INSTANTIATE_TEST_SUITE_P(Attributes, CapturedConv,
                         ::testing::Values(ConvCase{.name = "Plain"}, ConvCase{.name = "NoBias", .bias = false},
                                           ConvCase{.name = "StridePadding", .stride = 2, .padding = 1},
                                           ConvCase{.name = "Dilation", .dilation = 3, .padding = 2},
                                           ConvCase{.name = "Groups", .groups = 2},
                                           ConvCase{.name = "Depthwise", .groups = 4, .padding = 1},
                                           ConvCase{.name = "Pointwise", .kernel = 1},
                                           ConvCase{.name = "SameOdd", .same = true},
                                           ConvCase{.name = "SameEven", .kernel = 4, .same = true}),
                         [](const auto& chosen) { return chosen.param.name; });

}  // namespace
}  // namespace podaq
