#include <gtest/gtest.h>
#include <torch/torch.h>

#include <set>
#include <string>

#include "support/nets.h"

namespace podaq {
namespace {

using namespace podaq::testing;
namespace nn = torch::nn;
using torch::Tensor;

class Block : public nn::Module {
 public:
  Block(std::int64_t inputs, std::int64_t outputs, std::int64_t stride) {
    conv1 = register_module("conv1",
                            nn::Conv2d(nn::Conv2dOptions(inputs, outputs, 3).stride(stride).padding(1).bias(false)));
    bn1 = register_module("bn1", nn::BatchNorm2d(outputs));
    conv2 = register_module("conv2", nn::Conv2d(nn::Conv2dOptions(outputs, outputs, 3).padding(1).bias(false)));
    bn2 = register_module("bn2", nn::BatchNorm2d(outputs));
    if (stride != 1 || inputs != outputs)
      downsample = register_module(
          "downsample", nn::Sequential(nn::Conv2d(nn::Conv2dOptions(inputs, outputs, 1).stride(stride).bias(false)),
                                       nn::BatchNorm2d(outputs)));
  }
  Tensor forward(const Tensor& x) {
    Tensor out = torch::relu(bn1(conv1(x)));
    out = bn2(conv2(out));
    out += downsample.is_empty() ? x : downsample->forward(x);
    return torch::relu_(out);
  }

 private:
  nn::Conv2d conv1{nullptr}, conv2{nullptr};
  nn::BatchNorm2d bn1{nullptr}, bn2{nullptr};
  nn::Sequential downsample{nullptr};
};

class SmallResNet : public nn::Module {
 public:
  SmallResNet() {
    stem = register_module("stem", nn::Sequential(nn::Conv2d(nn::Conv2dOptions(3, 8, 3).padding(1)), nn::BatchNorm2d(8),
                                                  nn::ReLU(nn::ReLUOptions(true))));
    layer1 = register_module("layer1", std::make_shared<Block>(8, 8, 1));
    layer2 = register_module("layer2", std::make_shared<Block>(8, 16, 2));
    fc = register_module("fc", nn::Linear(16, 5));
  }
  Tensor forward(const Tensor& x) { return fc(layer2->forward(layer1->forward(stem->forward(x))).mean({2, 3})); }

 private:
  nn::Sequential stem{nullptr};
  std::shared_ptr<Block> layer1, layer2;
  nn::Linear fc{nullptr};
};

TEST(CapturedNetwork, ResNetKeepsNamesResidualsAndGradients) {
  torch::manual_seed(1);
  const auto net = std::make_shared<SmallResNet>();
  const Tensor sample = torch::randn({2, 3, 12, 12});
  const auto captured = capture(net, sample);
  std::set<std::string> expected, got;
  for (const auto& item : net->named_parameters()) expected.insert(item.key());
  for (const auto& item : captured->named_parameters()) got.insert(item.key());
  EXPECT_EQ(expected, got);
  std::set<std::string> expected_buffers, got_buffers;
  for (const auto& item : net->named_buffers()) expected_buffers.insert(item.key());
  for (const auto& item : captured->named_buffers()) got_buffers.insert(item.key());
  EXPECT_EQ(expected_buffers, got_buffers);
  expect_same_network(*net, *captured, sample);
}

TEST(CapturedNetwork, SharesParametersAndBuffersWithTheModule) {
  torch::manual_seed(1);
  const auto net = std::make_shared<SmallResNet>();
  const auto captured = capture(net, torch::randn({2, 3, 12, 12}));
  const auto parameters = captured->named_parameters();
  for (const auto& item : net->named_parameters())
    EXPECT_TRUE(item.value().is_same(parameters[item.key()])) << item.key();
  const auto buffers = captured->named_buffers();
  for (const auto& item : net->named_buffers()) EXPECT_TRUE(item.value().is_same(buffers[item.key()])) << item.key();
}

TEST(CapturedNetwork, FollowsTheModuleThroughDoubleAndBack) {
  torch::manual_seed(1);
  const auto net = std::make_shared<SmallResNet>();
  const auto captured = capture(net, torch::randn({2, 3, 12, 12}));
  captured->to(torch::kDouble);
  const Tensor x = torch::randn({3, 3, 12, 12}, torch::kDouble);
  net->eval();
  captured->eval();
  EXPECT_LE(largest_difference(net->forward(x), captured->forward(x)), 1e-12);
  captured->to(torch::kFloat);
  EXPECT_LE(largest_difference(net->forward(x.to(torch::kFloat)), captured->forward(x.to(torch::kFloat))), 1e-5);
}

nn::Sequential vgg(std::int64_t samples) {
  nn::Sequential net;
  for (std::int64_t block = 0; block < 3; ++block) {
    net->push_back(nn::Conv1d(nn::Conv1dOptions(block == 0 ? 2 : 16, 16, 3).padding(1).bias(false)));
    net->push_back(nn::BatchNorm1d(16));
    net->push_back(nn::ReLU());
    net->push_back(nn::MaxPool1d(2));
  }
  net->push_back(nn::Flatten());
  net->push_back(nn::Linear(nn::LinearOptions(2 * samples, 32).bias(false)));
  net->push_back(nn::BatchNorm1d(32));
  net->push_back(nn::ReLU());
  net->push_back(nn::Linear(32, 7));
  return net;
}

TEST(CapturedNetwork, VggFusesIntoOneStepPerLayer) {
  torch::manual_seed(2);
  nn::Sequential net = vgg(64);
  const Tensor sample = torch::randn({2, 2, 64});
  const auto captured = capture(net.ptr(), sample);
  expect_same_network(*net, *captured, sample);
  EXPECT_EQ(captured->steps().size(), 3U * 2 + 1 + 2);  // conv and pool thrice, flatten, two linears
}

TEST(CapturedNetwork, DropoutsOfCnnAKeepTheirProbabilitiesAndDraws) {
  torch::manual_seed(3);
  nn::Sequential net(nn::Conv2d(nn::Conv2dOptions(1, 8, 3).padding(1)), nn::BatchNorm2d(8), nn::ReLU(),
                     nn::MaxPool2d(2), nn::Dropout2d(0.2), nn::Conv2d(nn::Conv2dOptions(8, 8, 3).padding(1)),
                     nn::BatchNorm2d(8), nn::ReLU(), nn::Dropout(0.3), nn::Flatten(), nn::Linear(8 * 36, 16),
                     nn::Dropout(nn::DropoutOptions(0.5).inplace(true)), nn::ReLU(), nn::Linear(16, 4));
  const Tensor sample = torch::randn({2, 1, 12, 12});
  const auto captured = capture(net.ptr(), sample);
  expect_same_network(*net, *captured, sample);
  std::vector<double> probabilities;
  std::vector<bool> channels;
  for (const Node& node : captured->graph().nodes)
    if (const auto* dropout = std::get_if<Dropout>(&node.op)) {
      probabilities.push_back(dropout->p);
      channels.push_back(dropout->channels);
    }
  EXPECT_EQ(probabilities, (std::vector<double>{0.2, 0.3, 0.5}));
  EXPECT_EQ(channels, (std::vector<bool>{true, false, false}));
}

TEST(CapturedNetwork, DropoutBesideItsInputDropsOneBranchOnly) {
  torch::manual_seed(3);
  auto net = std::make_shared<FunctionNet>([](FunctionNet& self, Tensor x) {
    const Tensor hidden = torch::relu(self.linear("a", x));
    const Tensor dropped = torch::dropout(hidden, 0.5, self.is_training());
    return hidden + self.linear("b", dropped);
  });
  net->with("a", nn::Linear(6, 6)).with("b", nn::Linear(6, 6));
  const Tensor sample = torch::randn({2, 6});
  const auto captured = capture(net, sample);
  expect_same_network(*net, *captured, sample);
}

TEST(CapturedNetwork, TiedWeightsAppearOnce) {
  torch::manual_seed(4);
  auto net = std::make_shared<FunctionNet>([](FunctionNet& self, Tensor x) {
    return self.linear("second", torch::relu(self.linear("first", torch::relu(self.linear("first", x)))));
  });
  nn::Linear first(5, 5), second(5, 5);
  net->with("first", first).with("second", second);
  second->weight = second->register_parameter("tied", first->weight);
  const Tensor sample = torch::randn({2, 5});
  const auto captured = capture(net, sample);
  std::set<std::string> names;
  for (const auto& item : captured->named_parameters()) names.insert(item.key());
  EXPECT_EQ(names, (std::set<std::string>{"first.weight", "first.bias", "second.bias"}));
  net->eval();
  captured->eval();
  EXPECT_LE(largest_difference(net->forward(sample), captured->forward(sample)), 1e-6);
}

TEST(CapturedNetwork, LinearOverMoreDimensionsTakesItsBias) {
  torch::manual_seed(5);
  auto net = std::make_shared<FunctionNet>(
      [](FunctionNet& self, Tensor x) { return self.linear("b", torch::relu(self.linear("a", x))); });
  net->with("a", nn::Linear(6, 4)).with("b", nn::Linear(nn::LinearOptions(4, 3).bias(false)));
  const Tensor sample = torch::randn({2, 5, 6});
  const auto captured = capture(net, sample);
  EXPECT_EQ(captured->graph().nodes[0].tensors, (std::vector<std::string>{"a.weight", "a.bias"}));
  expect_same_network(*net, *captured, sample);
}

TEST(CapturedNetwork, SeveralInputsAndOutputsKeepTheirOrderAndNames) {
  torch::manual_seed(6);
  auto net = std::make_shared<FunctionNet>([](FunctionNet&, Tensor x) { return x; });
  nn::Linear a(3, 4), b(5, 4);
  net->with("a", a).with("b", b);
  const ForwardFunction forward = [&](const std::vector<Tensor>& inputs) {
    const Tensor left = a(inputs[0]);
    const Tensor right = b(inputs[1]);
    return std::vector<Tensor>{left + right, torch::relu(right)};
  };
  const std::vector<Tensor> samples = {torch::randn({2, 3}), torch::randn({2, 5})};
  const auto captured = capture(net, forward, samples, {.input_names = {"x", "y"}, .output_names = {"sum", "right"}});
  const Graph& graph = captured->graph();
  EXPECT_EQ(graph.values[graph.inputs[1]].name, "y");
  EXPECT_EQ(graph.values[graph.outputs[1]].name, "right");
  const std::vector<Tensor> x = {torch::randn({7, 3}), torch::randn({7, 5})};
  const auto expected = forward(x);
  const auto got = captured->forward(x);
  ASSERT_EQ(got.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_LE(largest_difference(expected[i], got[i]), 1e-6);
  EXPECT_THROW(static_cast<void>(captured->forward(x[0])), Error);
}

// What a linear layer makes of normalized channels has the mean 0, so its running mean is nothing but rounding.
TEST(CapturedNetwork, RunningMeansMayBeRoundingAlone) {
  for (int seed = 0; seed < 8; ++seed) {
    torch::manual_seed(seed);
    nn::Sequential net(nn::BatchNorm1d(8), nn::Conv1d(nn::Conv1dOptions(8, 8, 1).bias(false)), nn::BatchNorm1d(8),
                       nn::Conv1d(nn::Conv1dOptions(8, 8, 1).bias(false)),
                       nn::BatchNorm1d(nn::BatchNorm1dOptions(8).momentum(std::nullopt)));
    const Tensor sample = torch::randn({4, 8, 33});
    expect_same_network(*net, *capture(net.ptr(), sample), sample);
  }
}

TEST(CapturedNetwork, BatchNormWithAveragingMomentumFollowsTheModule) {
  torch::manual_seed(7);
  nn::Sequential net(nn::Conv1d(2, 4, 3), nn::BatchNorm1d(nn::BatchNorm1dOptions(4).momentum(std::nullopt)));
  const auto captured = capture(net.ptr(), torch::randn({4, 2, 9}));
  auto twin = std::dynamic_pointer_cast<nn::SequentialImpl>(net->clone());
  captured->train();
  for (int i = 0; i < 3; ++i) {
    const Tensor x = torch::randn({4, 2, 9}) + i;
    twin->forward(x);
    captured->forward(x);
  }
  const auto expected = twin->named_buffers();
  for (const auto& item : captured->named_buffers())
    EXPECT_LE(largest_difference(expected[item.key()].to(torch::kDouble), item.value().to(torch::kDouble)), 1e-5)
        << item.key();
}

}  // namespace
}  // namespace podaq
