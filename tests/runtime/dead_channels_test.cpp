// Removing dead channels leaves the network's outputs as they are, bit for bit.

#include "podaq/graph/dead_channels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "podaq/graph/passes.h"
#include "podaq/graph/verify.h"
#include "runtime/support.h"

namespace podaq::test {
namespace {

constexpr std::size_t batch = 3;

std::int64_t channels_of(const Graph& graph) {
  std::int64_t channels = 0;
  for (const Value& value : graph.values) channels += value.shape.empty() ? 0 : value.shape[0];
  return channels;
}

template <typename Element>
void clear_row(Tensor& weight, std::int64_t row) {
  const auto weights = elements<Element>(weight);
  const std::size_t size = weights.size() / static_cast<std::size_t>(weight.shape[0]);
  std::fill_n(weights.begin() + row * static_cast<std::ptrdiff_t>(size), size, Element{0});
}

// Output channels without weights, here and there; whole columns too.
void kill_channels(Graph& graph, double share, Draws& draws) {
  for (const Node& node : graph.nodes) {
    if (!has_weights(node.op)) continue;
    Tensor& weight = graph.tensors.at(node.tensors[0]);
    for (std::int64_t row = 0; row < weight.shape[0]; ++row) {
      if (!draws.chance(share)) continue;
      if (weight.dtype == DType::s8)
        clear_row<std::int8_t>(weight, row);
      else
        clear_row<float>(weight, row);
    }
  }
}

void expect_same_outputs(const Graph& graph, const Graph& smaller, Draws& draws, const std::string& where) {
  verify(smaller);
  const ModelOptions options{.read = {}, .isa = Isa::reference};
  const Model before(graph, options);
  const auto inputs = random_inputs(before, batch, draws);
  EXPECT_TRUE(
      same_bits(run_model(before, inputs, batch, batch), run_model(Model(smaller, options), inputs, batch, batch)))
      << where;
}

TEST(DeadChannelsProperty, OutputsStayTheSameBitForBit) {
  int float_shrunk = 0, integer_shrunk = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Draws draws(seed);
    const bool is_integer = seed % 2 == 1;
    Graph graph = is_integer ? random_integer_graph(seed) : fuse(random_float_graph(seed));
    kill_channels(graph, draws.chance(0.2) ? 1.0 : 0.5, draws);
    const Graph smaller = remove_dead_channels(graph);
    expect_same_outputs(graph, smaller, draws, "seed " + std::to_string(seed));
    if (channels_of(smaller) < channels_of(graph)) ++(is_integer ? integer_shrunk : float_shrunk);
  }
  EXPECT_GE(float_shrunk, 20);
  EXPECT_GE(integer_shrunk, 40);
}

TEST(DeadChannelsProperty, NothingIsLeftToRemove) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Draws draws(seed);
    Graph graph = seed % 2 == 1 ? random_integer_graph(seed) : random_float_graph(seed);
    kill_channels(graph, 0.5, draws);
    const Graph smaller = remove_dead_channels(graph);
    EXPECT_EQ(remove_dead_channels(smaller), smaller) << "seed " << seed;
  }
}

// quantize -> conv (4 channels, one of them constant) -> conv or linear.
struct Chain {
  std::int64_t pad = 0;
  std::int32_t bias_of_dead = 5000;
  bool flattens = false;
};

Graph chain(const Chain& options) {
  constexpr QParams q{.scale = 0.05F, .zero_point = 10, .lowest = 0, .highest = 255};
  Graph graph;
  Draws draws(3);
  const auto weight = [&](const std::string& name, const Shape& shape) {
    std::vector<std::int8_t> codes(static_cast<std::size_t>(element_count(shape)));
    for (auto& code : codes) code = static_cast<std::int8_t>(draws.integer(1, 90));
    graph.tensors[name] = make_tensor<std::int8_t>(DType::s8, shape, codes);
    graph.tensors[name].scales = {0.01F};
    return name;
  };
  const auto append = [&](Node node, std::optional<QParams> qparams) {
    node.output = add_value(graph, node.name + ".output", infer_shape(graph, node), qparams);
    graph.nodes.push_back(std::move(node));
    return graph.nodes.back().output;
  };
  graph.inputs = {add_value(graph, "input", {2, 9})};
  ValueId last = append({.op = Quantize{}, .name = "quantize", .inputs = graph.inputs, .tensors = {}}, q);
  const Conv first{.stride = {1}, .pads_begin = {1}, .pads_end = {1}, .dilation = {1}, .clamp = Clamp{.minimum = 0.0F}};
  const std::vector<std::int32_t> bias = {300, options.bias_of_dead, -200, 100};
  graph.tensors["first.bias"] = make_tensor<std::int32_t>(DType::i32, {4}, std::span(bias));
  last = append(
      {.op = first, .name = "first", .inputs = {last}, .tensors = {weight("first.weight", {4, 2, 3}), "first.bias"}},
      q);
  clear_row<std::int8_t>(graph.tensors["first.weight"], 1);
  if (options.flattens) {
    last = append({.op = Reshape{.shape = {36}}, .name = "flatten", .inputs = {last}, .tensors = {}}, q);
    last =
        append({.op = Linear{}, .name = "second", .inputs = {last}, .tensors = {weight("second.weight", {3, 36}), ""}},
               std::nullopt);
  } else {
    const Conv second{
        .stride = {1}, .pads_begin = {options.pad}, .pads_end = {options.pad}, .dilation = {1}, .clamp = {}};
    last =
        append({.op = second, .name = "second", .inputs = {last}, .tensors = {weight("second.weight", {3, 4, 3}), ""}},
               std::nullopt);
  }
  graph.outputs = {last};
  verify(graph);
  return graph;
}

void expect_kept(const Graph& graph, std::int64_t channels, bool has_bias) {
  Draws draws(4);
  const Graph smaller = remove_dead_channels(graph);
  expect_same_outputs(graph, smaller, draws, "chain");
  EXPECT_EQ(smaller.tensors.at("first.weight").shape[0], channels);
  EXPECT_EQ(smaller.tensors.contains("second.bias"), has_bias);
}

TEST(DeadChannels, AConstantGoesIntoTheNextBias) {
  expect_kept(chain({}), 3, true);
}

TEST(DeadChannels, AConstantStaysWherePaddingWouldCutIt) {
  expect_kept(chain({.pad = 1}), 4, false);
}

TEST(DeadChannels, AConstantThatStandsForZeroGoesDespitePadding) {
  expect_kept(chain({.pad = 1, .bias_of_dead = -5000}), 3, false);
}

TEST(DeadChannels, FlattenedChannelsTakeTheirFeaturesAlong) {
  const Graph graph = chain({.flattens = true});
  expect_kept(graph, 3, true);
  EXPECT_EQ(remove_dead_channels(graph).tensors.at("second.weight").shape, (Shape{3, 27}));
}

TEST(DeadChannels, OneChannelStaysWhereAllAreDead) {
  Graph graph = chain({});
  for (std::int64_t row = 0; row < 4; ++row) clear_row<std::int8_t>(graph.tensors["first.weight"], row);
  expect_kept(graph, 1, true);
}

TEST(DeadChannels, ALiveNetworkStaysAsItIs) {
  Graph graph = chain({});
  elements<std::int8_t>(graph.tensors["first.weight"])[6] = 1;
  EXPECT_EQ(remove_dead_channels(graph), graph);
}

}  // namespace
}  // namespace podaq::test
