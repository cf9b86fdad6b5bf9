#include "podaq/format/file.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <set>

#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "podaq/graph/verify.h"
#include "support/random_graph.h"
#include "support/small_graph.h"

namespace podaq {
namespace {

constexpr std::uint64_t graphs = 150;

// The graph as it must come back: values that are neither input nor output named after their nodes.
Graph with_stored_names(Graph graph) {
  std::set<ValueId> boundary(graph.inputs.begin(), graph.inputs.end());
  boundary.insert(graph.outputs.begin(), graph.outputs.end());
  std::set<std::string> taken;
  for (const ValueId id : boundary) taken.insert(graph.values[id].name);
  for (const Node& node : graph.nodes) {
    if (boundary.contains(node.output)) continue;
    std::string name = node.name;
    while (taken.contains(name)) name += "_";
    taken.insert(name);
    graph.values[node.output].name = name;
  }
  return graph;
}

// Bits, since == takes -0 for 0.
void expect_same_bytes(const Graph& read, const Graph& written) {
  for (const auto& [name, tensor] : written.tensors) EXPECT_EQ(read.tensors.at(name).bytes, tensor.bytes) << name;
}

void expect_round_trip(const Graph& graph) {
  const auto bytes = encode(graph);
  const Graph read = decode(bytes);
  EXPECT_EQ(read, with_stored_names(graph));
  expect_same_bytes(read, graph);
  EXPECT_EQ(encode(graph), bytes);
  EXPECT_EQ(encode(read), bytes);
}

class RandomGraphs : public testing::TestWithParam<std::uint64_t> {};

TEST_P(RandomGraphs, FloatComesBack) {
  expect_round_trip(test::random_float_graph(GetParam()));
}

TEST_P(RandomGraphs, IntegerComesBack) {
  expect_round_trip(test::random_integer_graph(GetParam()));
}

// Pruned float weights get masks; only +0.0 is masked, -0.0 and denormals must survive.
TEST_P(RandomGraphs, PrunedFloatComesBack) {
  Graph graph = test::random_float_graph(GetParam());
  test::Draws draws(GetParam() + 1000);
  for (auto& [name, tensor] : graph.tensors) {
    if (tensor.dtype != DType::f32) continue;
    for (float& element : elements<float>(tensor)) {
      if (draws.chance(0.7)) element = 0.0F;
      if (draws.chance(0.1)) element = -0.0F;
      if (draws.chance(0.1)) element = 1e-42F;
    }
  }
  expect_round_trip(graph);
}

INSTANTIATE_TEST_SUITE_P(Format, RandomGraphs, testing::Range<std::uint64_t>(0, graphs));

}  // namespace
}  // namespace podaq
