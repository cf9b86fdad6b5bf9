#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "podaq/graph/verify.h"
#include "runtime/naive_evaluator.h"
#include "runtime/support.h"

namespace podaq::test {
namespace {

// The graph with every value that a node computes among its outputs, codes as the numbers they stand for.
Graph with_every_value_shown(Graph graph) {
  const std::size_t count = graph.nodes.size();
  graph.outputs.clear();
  for (std::size_t i = 0; i < count; ++i) {
    const ValueId value = graph.nodes[i].output;
    if (!graph.values[value].qparams) {
      graph.outputs.push_back(value);
      continue;
    }
    const std::string name = "shown" + std::to_string(i);
    const ValueId shown = add_value(graph, name, graph.values[value].shape);
    graph.nodes.push_back({.op = Dequantize{}, .name = name, .inputs = {value}, .tensors = {}, .output = shown});
    graph.outputs.push_back(shown);
  }
  return graph;
}

// A number as the runtime stores it must be the nearest code to the ideal, or within float rounding of it.
void expect_close(float got, double ideal, double magnitude, const std::optional<QParams>& qparams,
                  const std::string& where) {
  if (!std::isfinite(ideal) || magnitude > 1e30) return;
  if (!qparams) {
    ASSERT_NEAR(got, ideal, 2e-5 * magnitude + 1e-30) << where;
    return;
  }
  const QParams& q = *qparams;
  const double steps = std::clamp(ideal / q.scale, static_cast<double>(q.lowest - q.zero_point),
                                  static_cast<double>(q.highest - q.zero_point));
  ASSERT_LE(std::abs(got / q.scale - steps), 0.501) << where << ": got " << got << ", ideal " << ideal;
}

// Runs the graph by the reference and checks each node against its definition, given the inputs it really had.
void check_every_node(const Graph& original, std::uint64_t seed, std::set<std::string>& ops_seen) {
  const Graph graph = with_every_value_shown(original);
  const Model model(graph, {.read = {}, .isa = Isa::reference});
  Draws draws(seed);
  const auto inputs = random_inputs(model, 1, draws);
  const std::vector<float> all = run_model(model, inputs, 1, 1);
  std::vector<std::vector<double>> values(graph.values.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) values[graph.inputs[i]].assign(inputs[i].begin(), inputs[i].end());
  std::size_t next = 0;
  for (const Node& node : original.nodes) {
    const std::size_t size = static_cast<std::size_t>(element_count(graph.values[node.output].shape));
    values[node.output].assign(all.begin() + static_cast<std::ptrdiff_t>(next),
                               all.begin() + static_cast<std::ptrdiff_t>(next + size));
    next += size;
  }
  for (const Node& node : original.nodes) {
    std::vector<std::vector<double>> operands;
    for (const ValueId input : node.inputs) operands.push_back(values[input]);
    const Ideal ideal = evaluate(graph, node, operands);
    const std::string where =
        "seed " + std::to_string(seed) + " node " + node.name + " " + std::string(name_of(node.op));
    for (std::size_t i = 0; i < ideal.values.size(); ++i) {
      expect_close(static_cast<float>(values[node.output][i]), ideal.values[i], ideal.magnitudes[i],
                   graph.values[node.output].qparams, where + " element " + std::to_string(i));
      if (::testing::Test::HasFatalFailure()) return;
    }
    ops_seen.insert(std::string(name_of(node.op)) + (graph.values[node.output].qparams ? " codes" : ""));
  }
}

TEST(ReferenceProperty, EveryOpOfRandomFloatGraphsComputesItsDefinition) {
  std::set<std::string> ops_seen;
  for (std::uint64_t seed = 1000; seed < 1150 && !HasFatalFailure(); ++seed)
    check_every_node(random_float_graph(seed), seed, ops_seen);
  for (const char* op :
       {"conv", "linear", "batch_norm", "clamp", "max_pool", "avg_pool", "adaptive_pool", "global_mean", "global_max",
        "add", "mul", "affine", "concat", "reshape", "activation", "softmax", "dropout"})
    EXPECT_TRUE(ops_seen.contains(op)) << op << " never drawn";
}

TEST(ReferenceProperty, EveryOpOfRandomIntegerGraphsGivesTheNearestCode) {
  std::set<std::string> ops_seen;
  for (std::uint64_t seed = 2000; seed < 2150 && !HasFatalFailure(); ++seed)
    check_every_node(random_integer_graph(seed), seed, ops_seen);
  for (const char* op :
       {"conv codes", "linear codes", "clamp codes", "max_pool codes", "avg_pool codes", "adaptive_pool codes",
        "global_mean codes", "global_max codes", "add codes", "mul codes", "affine codes", "concat codes",
        "reshape codes", "activation codes", "quantize codes", "dequantize", "conv", "linear"})
    EXPECT_TRUE(ops_seen.contains(op)) << op << " never drawn";
}

}  // namespace
}  // namespace podaq::test
