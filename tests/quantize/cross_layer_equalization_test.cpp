#include "podaq/quantize/cross_layer_equalization.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "compress/network_builder.h"
#include "quantize/post_training.h"

namespace podaq {
namespace {

using test::NetworkBuilder;

MaxPool halving_pool() {
  return {.kernel = {2}, .stride = {2}, .pads_begin = {0}, .pads_end = {0}, .dilation = {1}};
}

std::vector<std::pair<std::string, std::string>> named_pairs(const GraphModule& model) {
  std::vector<std::pair<std::string, std::string>> names;
  const auto name = [&](std::size_t step) { return model.graph().nodes[model.steps()[step].node].name; };
  for (const EqualizationPair& pair : equalization_pairs(model))
    names.emplace_back(name(pair.first), name(pair.second));
  return names;
}

// conv + batch norm + ReLU, depthwise, grouped, pooling, flattening and linears in a row.
std::shared_ptr<GraphModule> chain() {
  NetworkBuilder net;
  ValueId x = net.input("input", {2, 16});
  x = net.relu(net.batch_norm(net.conv(x, "conv", 8, 3, false), "norm"), "relu0");
  x = net.relu(net.batch_norm(net.conv(x, "depthwise", 8, 3, false, 8), "norm1"), "relu1");
  x = net.relu(net.conv(x, "grouped", 6, 1, true, 2), "relu2");
  x = net.apply(halving_pool(), "pool", {x});
  x = net.apply(Reshape{.shape = {48}}, "flat", {x});
  x = net.relu(net.linear(x, "hidden", 10), "relu3");
  return net.build({net.linear(x, "last", 3)});
}

void spread_channels(GraphModule& model) {
  const torch::NoGradGuard no_grad;
  torch::Tensor weight = model.tensor("grouped.weight");
  weight.mul_(torch::logspace(-2, 2, 6, 10.0).reshape({6, 1, 1}));
  torch::Tensor gamma = model.tensor("norm.weight");
  gamma.mul_(torch::logspace(-1, 1, 8, 10.0));
}

TEST(CrossLayerEqualization, FindsPairsThroughWhatKeepsFactors) {
  using Names = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(named_pairs(*chain()),
            (Names{{"conv", "depthwise"}, {"depthwise", "grouped"}, {"grouped", "hidden"}, {"hidden", "last"}}));
}

TEST(CrossLayerEqualization, LeavesOutWhatOthersReadOrClamps) {
  NetworkBuilder net;
  const ValueId x = net.input("input", {2, 16});
  const ValueId a = net.apply(Clamp{.minimum = 0.0F, .maximum = 6.0F}, "relu6", {net.conv(x, "a", 4, 3)});
  const ValueId b = net.relu(net.conv(a, "b", 4, 3), "relu_b");
  const ValueId c = net.conv(b, "c", 4, 3);
  const ValueId sum = net.relu(net.apply(Add{}, "sum", {c, b}), "relu_sum");
  const ValueId d = net.conv(sum, "d", 4, 3);
  const ValueId e = net.apply(Activation{.kind = ActivationKind::tanh}, "tanh", {d});
  const ValueId f = net.conv(e, "f", 4, 3);
  const ValueId g = net.tied_conv(net.relu(f, "relu_f"), "g", "f");
  EXPECT_TRUE(named_pairs(*net.build({g, d})).empty());
}

TEST(CrossLayerEqualization, KeepsWhatTheNetworkComputesAndZeros) {
  torch::manual_seed(1);
  const auto model = chain();
  test::unsettle_batch_norms(*model);
  spread_channels(*model);
  {
    const torch::NoGradGuard no_grad;
    model->tensor("hidden.weight").masked_fill_(torch::rand({10, 48}) < 0.5, 0.0);
    model->tensor("grouped.weight")[3].zero_();  // a dead channel
    model->tensor("norm.weight")[2] = 0.0;
  }
  const torch::Tensor zeros = model->tensor("hidden.weight") == 0;
  const std::vector<CalibrationBatch> batches = test::random_batches(*model, 2);
  const torch::Tensor before = test::outputs(*model, batches);
  EXPECT_EQ(equalize_layers(*model), 4U);
  const torch::Tensor after = test::outputs(*model, batches);
  EXPECT_LT((after - before).abs().max().item<double>(), 1e-5 * before.abs().max().item<double>());
  EXPECT_TRUE((model->tensor("hidden.weight") == 0).equal(zeros));
  for (const auto& item : model->named_parameters()) EXPECT_TRUE(item.value().isfinite().all().item<bool>());
}

TEST(CrossLayerEqualization, GivesBothLayersTheSameRangePerChannelAndHelpsPerTensorCodes) {
  torch::manual_seed(2);
  const auto model = chain();
  spread_channels(*model);
  const std::vector<CalibrationBatch> batches = test::random_batches(*model, 2);
  const torch::Tensor plain = test::outputs(*model, batches);
  const auto error_of = [&](GraphModule& network) {
    NetworkQuantizer quantizer = test::quantizer_of(network, {.bits = 8, .granularity = WeightGranularity::tensor});
    calibrate(network, quantizer, batches);
    const double error = (test::outputs(network, batches) - plain).abs().mean().item<double>();
    quantizer.disable(network);
    return error;
  };
  const double before = error_of(*model);
  equalize_layers(*model);
  EXPECT_LT(error_of(*model), 0.7 * before);

  const torch::Tensor hidden = model->tensor("hidden.weight").abs().amax(1);
  const torch::Tensor last = model->tensor("last.weight").abs().amax(0);
  EXPECT_TRUE(torch::allclose(hidden, last, 0.01)) << hidden << last;
}

}  // namespace
}  // namespace podaq
