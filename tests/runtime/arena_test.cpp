#include "runtime/arena.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "runtime/support.h"

namespace podaq::test {
namespace {

using runtime_detail::ArenaLayout;
using runtime_detail::build_plan;
using runtime_detail::Plan;
using runtime_detail::plan_arena;

// Indices of the nodes between which a value must keep its bytes.
struct Lifetime {
  std::size_t first, last;
};

std::vector<Lifetime> lifetimes(const Plan& plan) {
  std::vector<Lifetime> lives(plan.values.size());
  for (std::size_t node = 0; node < plan.nodes.size(); ++node) {
    lives[plan.nodes[node].output] = {node, node};
    for (const ValueId input : plan.nodes[node].inputs) lives[input].last = node;
  }
  return lives;
}

// Whether `after` is what a node that runs in place makes of `before`, which it is the last to read.
bool is_replaced(const Plan& plan, const std::vector<Lifetime>& lives, std::size_t before, std::size_t after) {
  const auto& node = plan.nodes[lives[after].first];
  return node.output == after && lives[before].last == lives[after].first &&
         std::count(node.inputs.begin(), node.inputs.end(), before) != 0 && node.kernel->runs_in_place != nullptr &&
         node.kernel->runs_in_place(node.packed) && plan.values[before].sample_bytes == plan.values[after].sample_bytes;
}

void expect_sound(const Plan& plan, std::size_t batch) {
  const ArenaLayout layout = plan_arena(plan, batch);
  const std::vector<Lifetime> lives = lifetimes(plan);
  const auto end = [&](std::size_t value) {
    return layout.offsets[value] + plan.values[value].sample_bytes * batch + runtime_detail::over_read_bytes;
  };
  for (const auto& node : plan.nodes) {
    const ValueId value = node.output;
    if (layout.offsets[value] == ArenaLayout::external) {
      EXPECT_NE(std::count(plan.output_values.begin(), plan.output_values.end(), value), 0);
      continue;
    }
    EXPECT_EQ(layout.offsets[value] % 64, 0U);
    EXPECT_LE(end(value), layout.scratch_offset);
    for (const auto& other_node : plan.nodes) {
      const ValueId other = other_node.output;
      if (other <= value || layout.offsets[other] == ArenaLayout::external) continue;
      if (lives[value].last < lives[other].first || lives[other].last < lives[value].first) continue;
      if (is_replaced(plan, lives, value, other) && layout.offsets[value] == layout.offsets[other]) continue;
      EXPECT_TRUE(end(value) <= layout.offsets[other] || end(other) <= layout.offsets[value])
          << "values " << value << " and " << other << " share bytes while both are needed";
    }
  }
  EXPECT_GE(layout.bytes, layout.scratch_offset + plan.scratch_bytes);
}

TEST(ArenaProperty, ValuesThatAreNeededAtOnceNeverShareBytes) {
  for (std::uint64_t seed = 0; seed < 100 && !HasFailure(); ++seed)
    for (const std::size_t batch : {1U, 5U}) {
      for (const SparseKernels sparse : {SparseKernels::never, SparseKernels::automatic, SparseKernels::always})
        expect_sound(build_plan(random_integer_graph(seed), runnable_isas().back(), sparse), batch);
      expect_sound(build_plan(random_float_graph(seed), Isa::reference, SparseKernels::automatic), batch);
    }
}

// A chain needs room for two neighbours at a time, not for all.
TEST(Arena, AChainOfEqualValuesTakesTwoPlaces) {
  Graph graph;
  ValueId last = add_value(graph, "input", {1000});
  graph.inputs = {last};
  for (int i = 0; i < 10; ++i) {
    const std::string name = "step" + std::to_string(i);
    const ValueId next = add_value(graph, name, {1000});
    graph.nodes.push_back({.op = Affine{}, .name = name, .inputs = {last}, .tensors = {}, .output = next});
    last = next;
  }
  graph.outputs = {last};
  EXPECT_LE(plan_arena(build_plan(graph, Isa::reference, SparseKernels::automatic), 4).bytes, 2 * (4 * 4000 + 128U));
}

TEST(Arena, AChainOfElementwiseNodesTakesOnePlace) {
  Graph graph;
  ValueId last = add_value(graph, "input", {1000});
  graph.inputs = {last};
  for (int i = 0; i < 5; ++i) {
    const ValueId next = add_value(graph, concat("value", i), {1000});
    graph.nodes.push_back({.op = Affine{}, .name = concat("node", i), .inputs = {last}, .tensors = {}, .output = next});
    last = next;
  }
  graph.outputs = {last};
  const Plan plan = build_plan(graph, Isa::reference, SparseKernels::automatic);
  EXPECT_LT(plan_arena(plan, 1).bytes, 2 * 4000U);
}

TEST(Arena, OneThatCannotBeAddressedIsAnError) {
  Graph graph;
  const ValueId input = add_value(graph, "input", {std::int64_t{1} << 30});
  const ValueId middle = add_value(graph, "middle", {std::int64_t{1} << 30});
  const ValueId output = add_value(graph, "output", {std::int64_t{1} << 30});
  graph.inputs = {input};
  graph.outputs = {output};
  graph.nodes = {{.op = Affine{}, .name = "first", .inputs = {input}, .tensors = {}, .output = middle},
                 {.op = Affine{}, .name = "second", .inputs = {middle}, .tensors = {}, .output = output}};
  const runtime_detail::Plan plan = build_plan(graph, Isa::reference, SparseKernels::automatic);
  try {
    static_cast<void>(plan_arena(plan, 65536));
    FAIL() << "planned";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("more memory than can be addressed"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace podaq::test
