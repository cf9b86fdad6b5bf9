#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "podaq/core/error.h"
#include "podaq/graph/passes.h"
#include "podaq/graph/steps.h"
#include "podaq/graph/verify.h"
#include "support/evaluate.h"
#include "support/random_graph.h"
#include "support/small_graph.h"

namespace podaq {
namespace {

using test::SmallGraph;

constexpr Clamp relu = {.minimum = 0.0F};

std::vector<std::vector<double>> random_inputs(const Graph& graph, std::uint64_t seed) {
  test::Draws draws(seed);
  std::vector<std::vector<double>> inputs;
  for (const ValueId input : graph.inputs) {
    inputs.emplace_back(static_cast<std::size_t>(element_count(graph.values[input].shape)));
    for (double& number : inputs.back()) number = draws.real(-2.0F, 2.0F);
  }
  return inputs;
}

// Folding rounds weights to float, so results agree to a few roundings of the largest number in the network.
void expect_same_function(const Graph& before, const Graph& after, std::uint64_t seed) {
  const auto inputs = random_inputs(before, seed);
  const auto wanted = test::evaluate(before, inputs);
  const auto got = test::evaluate(after, inputs);
  ASSERT_EQ(wanted.size(), got.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_EQ(before.values[before.outputs[i]].name, after.values[after.outputs[i]].name);
    ASSERT_EQ(wanted[i].size(), got[i].size());
    double largest = 1.0;
    for (const double number : wanted[i]) largest = std::max(largest, std::abs(number));
    for (std::size_t k = 0; k < wanted[i].size(); ++k) ASSERT_NEAR(wanted[i][k], got[i][k], 2e-5 * largest);
  }
}

std::set<std::string> ops_of(const Graph& graph) {
  std::set<std::string> ops;
  for (const Node& node : graph.nodes) ops.emplace(name_of(node.op));
  return ops;
}

TEST(FuseProperty, RandomGraphsKeepTheirFunctionAndVerify) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = test::random_float_graph(seed);
    const Graph fused = fuse(graph);
    ASSERT_NO_THROW(verify(fused));
    ASSERT_FALSE(ops_of(fused).contains("dropout"));
    ASSERT_EQ(fused.metadata, graph.metadata);
    expect_same_function(graph, fused, seed);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(FuseProperty, WeightsOfCodesStayCodesUnderABatchNorm) {
  std::size_t folded = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    test::Draws draws(seed);
    const Graph graph = test::with_weight_codes(test::random_float_graph(seed), draws);
    const Graph fused = fuse(graph);
    ASSERT_NO_THROW(verify(fused));
    for (const Step& step : find_steps(graph)) {
      const Node& first = graph.nodes[step.node];
      if (!has_weights(first.op) || !step.batch_norm) continue;
      const auto node = std::ranges::find(fused.nodes, first.name, &Node::name);
      ASSERT_NE(node, fused.nodes.end());
      const Tensor& before = graph.tensors.at(first.tensors[0]);
      const Tensor& after = fused.tensors.at(node->tensors[0]);
      EXPECT_EQ(after.dtype, before.dtype);
      EXPECT_EQ(after.bits, before.bits);
      folded += before.dtype == DType::s8 ? 1 : 0;
    }
    expect_same_function(graph, fused, seed);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(folded, 10U);
}

TEST(Fuse, ABatchNormTurnsTheSignsOfCodesAndSilencesChannels) {
  SmallGraph net({4, 9});
  const ValueId y = net.linear(net.append(GlobalMean{}, {net.input()}), false);
  net.output(net.batch_norm(y));
  const std::string weight = net.graph.nodes[1].tensors[0];
  const std::string gamma = net.graph.nodes[2].tensors[0];
  const std::vector<std::int8_t> codes = {3, -2, 1, 0, 1, 1, 1, 1, 2, 2, 2, 2, 0, 0, 0, 0};
  net.graph.tensors[weight] = make_tensor<std::int8_t>(DType::s8, {4, 4}, codes);
  net.graph.tensors[weight].scales = {0.5F};
  const auto fused_weight = [&](const std::vector<float>& factors) {
    net.graph.tensors[gamma] = make_tensor<float>(DType::f32, {4}, factors);
    const Graph fused = fuse(net.graph);
    verify(fused);
    expect_same_function(net.graph, fused, 1);
    return fused.tensors.at(weight);
  };
  const Tensor folded = fused_weight({-2.0F, 0.0F, 1.0F, 3.0F});
  ASSERT_EQ(folded.dtype, DType::s8);
  const auto got = elements<std::int8_t>(folded);
  EXPECT_EQ(std::vector<std::int8_t>(got.begin(), got.end()),
            (std::vector<std::int8_t>{-3, 2, -1, 0, 0, 0, 0, 0, 2, 2, 2, 2, 0, 0, 0, 0}));
  EXPECT_EQ(fused_weight({-2.0F, 0.0F, 1e-38F, 3.0F}).dtype, DType::f32) << "0.5 * 1e-38 is no scale";
  EXPECT_EQ(fused_weight({-2.0F, 0.0F, 1.0F, 1e-38F}).dtype, DType::s8) << "a channel of zeros needs none";
}

TEST(FuseProperty, EachStepBecomesOneNodeUnderTheNameOfItsFirst) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = test::random_float_graph(seed);
    const Graph fused = fuse(graph);
    std::size_t node = 0;
    for (const Step& step : find_steps(graph)) {
      const Node& first = graph.nodes[step.node];
      const bool is_output = std::ranges::find(graph.outputs, step.output) != graph.outputs.end();
      if (std::holds_alternative<Dropout>(first.op) && !is_output) continue;
      ASSERT_LT(node, fused.nodes.size());
      EXPECT_EQ(fused.nodes[node].name, first.name);
      EXPECT_EQ(fused.values[fused.nodes[node].output].name, graph.values[step.output].name);
      ++node;
    }
    EXPECT_EQ(node, fused.nodes.size());
  }
}

TEST(Fuse, AResidualBlockBecomesTwoConvs) {
  SmallGraph net({4, 7, 5});
  const ValueId x = net.input();
  const ValueId first = net.append(relu, {net.batch_norm(net.conv(x))});
  const ValueId second = net.batch_norm(net.conv(first));
  net.output(net.append(Clamp{.minimum = 0.0F, .maximum = 6.0F}, {net.append(Add{}, {x, second})}));
  const Graph fused = fuse(net.graph);
  verify(fused);
  ASSERT_EQ(fused.nodes.size(), 2U);
  const auto& conv = std::get<Conv>(fused.nodes[1].op);
  EXPECT_TRUE(conv.adds_input);
  EXPECT_EQ(conv.clamp, (Clamp{.minimum = 0.0F, .maximum = 6.0F}));
  EXPECT_EQ(fused.values.size(), 3U);
  EXPECT_EQ(fused.tensors.size(), 4U) << "the batch norms' tensors are gone";
  expect_same_function(net.graph, fused, 1);
}

TEST(Fuse, FoldsGroupedDepthwiseAndBiaslessConvsAndLinears) {
  for (const std::int64_t groups : {1, 2, 4})
    for (const bool biased : {true, false}) {
      SmallGraph net;
      net.output(net.append(relu, {net.batch_norm(net.conv(net.input(), groups, biased))}));
      const Graph fused = fuse(net.graph);
      verify(fused);
      ASSERT_EQ(fused.nodes.size(), 1U);
      EXPECT_FALSE(fused.nodes[0].tensors[1].empty()) << "folding gives every conv a bias";
      expect_same_function(net.graph, fused, 2);
    }
  SmallGraph net({6});
  net.output(net.batch_norm(net.linear(net.input(), false)));
  ASSERT_EQ(fuse(net.graph).nodes.size(), 1U);
  expect_same_function(net.graph, fuse(net.graph), 3);
}

TEST(Fuse, SurvivesZeroTinyAndNegativeBatchNormWeights) {
  SmallGraph net;
  const ValueId conv = net.conv(net.input());
  net.output(net.batch_norm(conv));
  const auto gamma = elements<float>(net.graph.tensors.at("batch_norm1.weight"));
  gamma[0] = 0.0F;
  gamma[1] = 1.0e-8F;
  gamma[2] = -1.0F;
  const Graph fused = fuse(net.graph);
  for (const auto& [name, tensor] : fused.tensors)
    for (const float number : elements<float>(tensor)) EXPECT_TRUE(std::isfinite(number)) << name;
  const auto weights = elements<float>(tensor_at(fused, "conv0.weight"));
  for (std::size_t i = 0; i < weights.size() / 4; ++i) EXPECT_EQ(weights[i], 0.0F) << "a dead channel";
  EXPECT_EQ(elements<float>(tensor_at(fused, "conv0.bias"))[0],
            elements<float>(tensor_at(net.graph, "batch_norm1.bias"))[0]);
  expect_same_function(net.graph, fused, 4);
}

TEST(Fuse, PrunedWeightsStayPositiveZero) {
  SmallGraph net;
  net.output(net.batch_norm(net.conv(net.input())));
  const auto weights = elements<float>(net.graph.tensors.at("conv0.weight"));
  for (std::size_t i = 0; i < weights.size(); i += 2) weights[i] = 0.0F;
  for (float& gamma : elements<float>(net.graph.tensors.at("batch_norm1.weight"))) gamma = -gamma;
  const Graph fused = fuse(net.graph);
  const auto folded = elements<float>(tensor_at(fused, "conv0.weight"));
  for (std::size_t i = 0; i < folded.size(); i += 2) {
    EXPECT_EQ(folded[i], 0.0F);
    EXPECT_FALSE(std::signbit(folded[i]));
    EXPECT_NE(folded[i + 1], 0.0F);
  }
}

TEST(Fuse, ABatchNormWithoutAConvBecomesADepthwiseConv) {
  for (const Shape& shape : {Shape{4, 9}, Shape{4, 3, 5}}) {
    SmallGraph net(shape);
    net.output(net.batch_norm(net.input()));
    const Graph fused = fuse(net.graph);
    verify(fused);
    ASSERT_EQ(fused.nodes.size(), 1U);
    EXPECT_EQ(std::get<Conv>(fused.nodes[0].op).groups, 4);
    expect_same_function(net.graph, fused, 5);
  }
  SmallGraph flat({4});
  flat.output(flat.batch_norm(flat.input()));
  EXPECT_EQ(fuse(flat.graph), flat.graph) << "without spatial dimensions it cannot be a conv";
}

TEST(Fuse, TiedWeightsAreNotFoldedTwice) {
  SmallGraph net;
  const ValueId first = net.conv(net.input());
  const ValueId normal = net.batch_norm(first);
  const ValueId second = net.append(net.graph.nodes[0].op, {normal}, net.graph.nodes[0].tensors);
  const ValueId third = net.append(net.graph.nodes[0].op, {net.batch_norm(second)}, net.graph.nodes[0].tensors);
  net.output(third);
  const Graph fused = fuse(net.graph);
  verify(fused);
  ASSERT_EQ(fused.nodes.size(), 3U);
  std::set<std::string> weights;
  for (const Node& node : fused.nodes) weights.insert(node.tensors[0]);
  EXPECT_EQ(weights.size(), 3U);
  EXPECT_EQ(tensor_at(fused, fused.nodes[2].tensors[0]), tensor_at(net.graph, "conv0.weight")) << "the unfolded one";
  expect_same_function(net.graph, fused, 6);
}

TEST(Fuse, ADroppedDropoutsReadersReadItsInput) {
  SmallGraph net;
  const ValueId pooled = net.append(Affine{.factor = 2.0F}, {net.input()});
  const ValueId dropped = net.append(Dropout{}, {net.append(Dropout{}, {pooled})});
  net.output(net.append(Mul{}, {dropped, pooled}));
  net.output(net.append(Dropout{}, {pooled}));
  const Graph fused = fuse(net.graph);
  verify(fused);
  EXPECT_EQ(ops_of(fused), (std::set<std::string>{"affine", "mul", "reshape"})) << "an output keeps its name";
  expect_same_function(net.graph, fused, 7);
}

TEST(Fuse, TwoClampsInARowComposeAndAClampFollowsAnAdd) {
  SmallGraph net;
  const ValueId low = net.append(Clamp{.minimum = -1.0F, .maximum = 0.5F}, {net.conv(net.input())});
  const ValueId high = net.append(Clamp{.minimum = 0.0F, .maximum = 2.0F}, {low});
  net.output(net.append(Clamp{.minimum = 0.25F}, {net.append(Add{}, {high, net.input()})}));
  const Graph fused = fuse(net.graph);
  verify(fused);
  EXPECT_EQ(fused.nodes.size(), 3U);
  EXPECT_EQ(std::get<Add>(fused.nodes[2].op).clamp, (Clamp{.minimum = 0.25F}));
  expect_same_function(net.graph, fused, 8);
}

TEST(Fuse, RefusesABatchNormWithoutVariance) {
  SmallGraph net;
  net.output(net.batch_norm(net.conv(net.input())));
  elements<float>(net.graph.tensors.at("batch_norm1.running_var"))[2] = -1.0F;
  try {
    static_cast<void>(fuse(net.graph));
    FAIL() << "should have thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::graph);
    EXPECT_NE(std::string(error.what()).find("batch_norm1"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("channel 2"), std::string::npos);
  }
}

TEST(RemoveUnused, DropsWhatNothingRefersTo) {
  SmallGraph net;
  const ValueId stray = add_value(net.graph, "stray", {3});
  const ValueId conv = net.conv(net.input());
  ASSERT_LT(stray, conv);
  net.graph.tensors["stray"] = make_tensor<float>(DType::f32, {1}, std::vector<float>{1.0F});
  net.output(conv);
  const Graph kept = remove_unused(net.graph);
  verify(kept);
  EXPECT_EQ(kept.values.size(), 2U);
  EXPECT_EQ(kept.tensors.size(), 2U);
  EXPECT_EQ(remove_unused(kept), kept);
}

}  // namespace
}  // namespace podaq
