#include "podaq/graph/channel_groups.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "podaq/core/error.h"
#include "podaq/graph/verify.h"
#include "support/random_graph.h"

namespace podaq::test {
namespace {

// A graph without data, built layer by layer.
struct Sketch {
  Graph graph;

  ValueId input(Shape shape) {
    graph.inputs.push_back(add_value(graph, "input" + std::to_string(graph.inputs.size()), std::move(shape)));
    return graph.inputs.back();
  }
  ValueId add(Op op, std::vector<ValueId> inputs, std::vector<std::string> tensors = {}) {
    Node node{.op = std::move(op),
              .name = "node" + std::to_string(graph.nodes.size()),
              .inputs = std::move(inputs),
              .tensors = std::move(tensors)};
    node.output = add_value(graph, node.name + ".output", infer_shape(graph, node));
    graph.nodes.push_back(std::move(node));
    return graph.nodes.back().output;
  }
  ValueId conv(ValueId from, std::int64_t channels, std::int64_t groups = 1) {
    const std::string weight = "weight" + std::to_string(graph.nodes.size());
    graph.tensors[weight].shape = {channels, graph.values[from].shape[0] / groups, 3};
    return add(Conv{.stride = {1}, .pads_begin = {1}, .pads_end = {1}, .dilation = {1}, .groups = groups, .clamp = {}},
               {from}, {weight, ""});
  }
  ValueId linear(ValueId from, std::int64_t features) {
    const std::string weight = "weight" + std::to_string(graph.nodes.size());
    graph.tensors[weight].shape = {features, graph.values[from].shape.back()};
    return add(Linear{}, {from}, {weight, ""});
  }
  ValueId flatten(ValueId from) { return add(Reshape{.shape = {element_count(graph.values[from].shape)}}, {from}); }
  ChannelGroups groups(ValueId output) {
    graph.outputs = {output};
    verify(graph, {.tensors_have_data = false});
    return find_channel_groups(graph);
  }
};

TEST(ChannelGroups, InputsAndOutputsStay) {
  Sketch sketch;
  const ValueId input = sketch.input({2, 8});
  const ValueId hidden = sketch.conv(input, 4);
  const ValueId output = sketch.conv(hidden, 3);
  const ChannelGroups groups = sketch.groups(output);
  EXPECT_EQ(groups.size(), 9U);
  for (const std::size_t group : groups.of_value[input]) EXPECT_TRUE(groups.is_fixed[group]);
  for (const std::size_t group : groups.of_value[hidden]) EXPECT_FALSE(groups.is_fixed[group]);
  for (const std::size_t group : groups.of_value[output]) EXPECT_TRUE(groups.is_fixed[group]);
}

TEST(ChannelGroups, AResidualTiesBothBranches) {
  Sketch sketch;
  const ValueId first = sketch.conv(sketch.input({2, 8}), 4);
  const ValueId second = sketch.conv(first, 4);
  const ValueId sum = sketch.add(Add{}, {first, second});
  const ChannelGroups groups = sketch.groups(sketch.conv(sum, 3));
  EXPECT_EQ(groups.of_value[first], groups.of_value[second]);
  EXPECT_EQ(groups.of_value[first], groups.of_value[sum]);
}

TEST(ChannelGroups, AConcatenationHoldsTheChannelsOfItsInputsInTurn) {
  Sketch sketch;
  const ValueId input = sketch.input({2, 8});
  const ValueId a = sketch.conv(input, 3);
  const ValueId b = sketch.conv(input, 2);
  const ValueId joined = sketch.add(Concat{.axis = 0}, {a, b});
  const ChannelGroups groups = sketch.groups(sketch.conv(joined, 3));
  std::vector<std::size_t> in_turn = groups.of_value[a];
  in_turn.insert(in_turn.end(), groups.of_value[b].begin(), groups.of_value[b].end());
  EXPECT_EQ(groups.of_value[joined], in_turn);
}

TEST(ChannelGroups, FlattenedFeaturesBelongToTheirChannel) {
  Sketch sketch;
  const ValueId hidden = sketch.conv(sketch.input({2, 4}), 3);
  const ValueId flat = sketch.flatten(hidden);
  const ChannelGroups groups = sketch.groups(sketch.linear(flat, 2));
  for (std::size_t feature = 0; feature < 12; ++feature)
    EXPECT_EQ(groups.of_value[flat][feature], groups.of_value[hidden][feature / 4]);
}

TEST(ChannelGroups, ADepthwiseConvolutionTiesOutputsToTheirInput) {
  Sketch sketch;
  const ValueId hidden = sketch.conv(sketch.input({2, 4}), 3);
  const ValueId depthwise = sketch.conv(hidden, 6, 3);
  const ChannelGroups groups = sketch.groups(sketch.conv(depthwise, 2));
  for (std::size_t channel = 0; channel < 6; ++channel)
    EXPECT_EQ(groups.of_value[depthwise][channel], groups.of_value[hidden][channel / 2]);
}

TEST(ChannelGroups, AGroupedConvolutionLosesTheSameChannelsInEachGroup) {
  Sketch sketch;
  const ValueId hidden = sketch.conv(sketch.input({2, 4}), 6);
  const ValueId grouped = sketch.conv(hidden, 4, 2);
  const ValueId output = sketch.conv(grouped, 2);
  const ChannelGroups groups = sketch.groups(output);
  EXPECT_EQ(groups.of_value[hidden][1], groups.of_value[hidden][4]);
  std::vector<bool> removed(groups.size(), false);
  removed[groups.of_value[hidden][1]] = true;
  removed[groups.of_value[grouped][0]] = true;
  const SmallerGraph smaller = remove_channels(sketch.graph, groups, removed);
  verify(smaller.graph, {.tensors_have_data = false});
  EXPECT_EQ(smaller.graph.values[hidden].shape[0], 4);
  EXPECT_EQ(smaller.graph.values[grouped].shape[0], 2);
  EXPECT_EQ(std::get<Conv>(smaller.graph.nodes[1].op).groups, 2);
}

TEST(ChannelGroups, WhatASoftmaxReadsStays) {
  Sketch sketch;
  const ValueId hidden = sketch.conv(sketch.input({2, 4}), 3);
  const ChannelGroups groups = sketch.groups(sketch.conv(sketch.add(Softmax{.axis = 1}, {hidden}), 2));
  for (const std::size_t group : groups.of_value[hidden]) EXPECT_TRUE(groups.is_fixed[group]);
}

TEST(ChannelGroups, TiedWeightsTieTheirLayers) {
  Sketch sketch;
  const ValueId first = sketch.conv(sketch.input({4, 8}), 4);
  const Conv again{.stride = {1}, .pads_begin = {1}, .pads_end = {1}, .dilation = {1}, .clamp = {}};
  const ValueId second = sketch.add(again, {first}, {"weight0", ""});
  const ChannelGroups groups = sketch.groups(sketch.conv(second, 2));
  EXPECT_EQ(groups.of_value[first], groups.of_value[second]);
  EXPECT_EQ(groups.of_value[first], groups.of_value[sketch.graph.inputs[0]]) << "the input is what both read";
  for (const std::size_t group : groups.of_value[first]) EXPECT_TRUE(groups.is_fixed[group]);
}

TEST(RemoveChannels, NamesTheValueThatWouldBecomeEmpty) {
  Sketch sketch;
  const ValueId hidden = sketch.conv(sketch.input({2, 4}), 2);
  const ChannelGroups groups = sketch.groups(sketch.conv(hidden, 2));
  std::vector<bool> removed(groups.size(), false);
  for (const std::size_t group : groups.of_value[hidden]) removed[group] = true;
  try {
    static_cast<void>(remove_channels(sketch.graph, groups, removed));
    FAIL() << "removed all channels";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'node0.output' would lose all 2 channels"), std::string::npos)
        << error.what();
  }
}

TEST(RemoveChannels, RefusesAChannelOfTheInput) {
  Sketch sketch;
  const ValueId input = sketch.input({2, 4});
  const ChannelGroups groups = sketch.groups(sketch.conv(input, 2));
  std::vector<bool> removed(groups.size(), false);
  removed[groups.of_value[input][1]] = true;
  EXPECT_THROW(static_cast<void>(remove_channels(sketch.graph, groups, removed)), Error);
}

// Whatever may go leaves a graph that verifies, and cuts that give its tensors.
TEST(RemoveChannelsProperty, AnyChoiceOfGroupsLeavesAGraph) {
  int cut = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Draws draws(seed);
    const Graph graph = seed % 2 == 1 ? random_integer_graph(seed) : random_float_graph(seed);
    const ChannelGroups groups = find_channel_groups(graph);
    std::vector<bool> removed(groups.size(), false);
    for (std::size_t group = 0; group < groups.size(); ++group)
      removed[group] = !groups.is_fixed[group] && draws.chance(0.5);
    for (const auto& channels : groups.of_value) removed[channels.front()] = false;
    const SmallerGraph smaller = remove_channels(graph, groups, removed);
    EXPECT_NO_THROW(verify(smaller.graph)) << "seed " << seed;
    for (const auto& [name, cuts] : smaller.cuts) {
      EXPECT_EQ(cut_tensor(graph.tensors.at(name), cuts), smaller.graph.tensors.at(name));
      ++cut;
    }
  }
  EXPECT_GE(cut, 100);
}

}  // namespace
}  // namespace podaq::test
