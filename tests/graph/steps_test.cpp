#include "podaq/graph/steps.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "podaq/graph/verify.h"
#include "support/random_graph.h"
#include "support/small_graph.h"

namespace podaq {
namespace {

using test::SmallGraph;
using Indices = std::vector<std::size_t>;

constexpr Clamp relu = {.minimum = 0.0F};

TEST(FindSteps, ConvBatchNormAndClampAreOneStep) {
  SmallGraph net;
  const ValueId conv = net.conv(net.input());
  const ValueId norm = net.batch_norm(conv);
  net.output(net.append(relu, {norm}));
  const auto steps = find_steps(net.graph);
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].node, 0U);
  EXPECT_EQ(steps[0].batch_norm, 1U);
  EXPECT_EQ(steps[0].clamp, 2U);
  EXPECT_EQ(steps[0].add, std::nullopt);
  EXPECT_EQ(steps[0].output, net.graph.outputs[0]);
}

TEST(FindSteps, AResidualAddJoinsTheBranchThatComesLast) {
  SmallGraph net;
  const ValueId x = net.input();
  const ValueId first = net.append(relu, {net.conv(x)});
  const ValueId second = net.batch_norm(net.conv(first));
  net.output(net.append(relu, {net.append(Add{}, {first, second})}));
  const auto steps = find_steps(net.graph);
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[1].node, 2U);
  EXPECT_EQ(steps[1].batch_norm, 3U);
  EXPECT_EQ(steps[1].add, 4U);
  EXPECT_EQ(steps[1].residual, first);
  EXPECT_EQ(steps[1].clamp, 5U);
}

TEST(FindSteps, OfTwoConvsTheLaterOneTakesTheAddWhicheverOperandItIs) {
  for (const bool swapped : {false, true}) {
    SmallGraph net;
    const ValueId x = net.input();
    const ValueId early = net.conv(x);
    const ValueId late = net.conv(x);
    net.output(net.append(Add{}, swapped ? std::vector{late, early} : std::vector{early, late}));
    const auto steps = find_steps(net.graph);
    ASSERT_EQ(steps.size(), 2U);
    EXPECT_EQ(steps[0].add, std::nullopt);
    EXPECT_EQ(steps[1].node, 1U);
    EXPECT_EQ(steps[1].residual, early);
  }
}

TEST(FindSteps, AChainOfResidualsFusesBlockByBlock) {
  SmallGraph net;
  ValueId x = net.append(relu, {net.conv(net.input())});
  for (int block = 0; block < 3; ++block)
    x = net.append(relu, {net.append(Add{}, {net.conv(net.append(relu, {net.conv(x)})), x})});
  net.output(x);
  const auto steps = find_steps(net.graph);
  ASSERT_EQ(steps.size(), 7U);
  for (const std::size_t block : {2U, 4U, 6U}) {
    EXPECT_TRUE(steps[block].add && steps[block].clamp);
    EXPECT_EQ(steps[block].residual, steps[block - 2].output);
  }
}

TEST(FindSteps, AValueThatSomebodyElseReadsStaysAlone) {
  SmallGraph net;
  const ValueId conv = net.conv(net.input());
  const ValueId clamped = net.append(relu, {conv});
  net.output(net.append(Add{}, {clamped, conv}));
  const auto steps = find_steps(net.graph);
  ASSERT_EQ(steps.size(), 3U);
  for (const Step& step : steps) EXPECT_FALSE(step.clamp || step.add);
}

TEST(FindSteps, AnOutputOfTheGraphIsNotSwallowed) {
  SmallGraph net;
  const ValueId conv = net.conv(net.input());
  net.output(conv);
  net.output(net.append(relu, {conv}));
  EXPECT_EQ(find_steps(net.graph).size(), 2U);
}

TEST(FindSteps, AddingAValueToItselfFusesNothing) {
  SmallGraph net;
  const ValueId conv = net.conv(net.input());
  net.output(net.append(Add{}, {conv, conv}));
  EXPECT_EQ(find_steps(net.graph).size(), 2U);
}

TEST(FindSteps, AClampEndsAStep) {
  SmallGraph net;
  const ValueId x = net.input();
  const ValueId conv = net.append(relu, {net.conv(x)});
  const ValueId again = net.append(Clamp{.minimum = -1.0F, .maximum = 1.0F}, {conv});
  net.output(net.append(Add{}, {again, x}));
  const auto steps = find_steps(net.graph);
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[0].clamp, 1U);
  EXPECT_EQ(steps[1].node, 2U);
  EXPECT_EQ(steps[2].add, std::nullopt);
}

TEST(FindSteps, AStandaloneAddTakesItsClamp) {
  SmallGraph net;
  const ValueId x = net.input();
  const ValueId pooled = net.append(Affine{.factor = 2.0F}, {x});
  net.output(net.append(relu, {net.append(Add{}, {x, pooled})}));
  const auto steps = find_steps(net.graph);
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[1].node, 1U);
  EXPECT_EQ(steps[1].add, std::nullopt);
  EXPECT_EQ(steps[1].clamp, 2U);
}

TEST(FindSteps, ADropoutInsideJoinsAndOneAtTheEndStandsAlone) {
  SmallGraph net;
  const ValueId conv = net.conv(net.input());
  const ValueId dropped = net.append(Dropout{}, {conv});
  const ValueId clamped = net.append(relu, {dropped});
  net.output(net.append(Softmax{}, {net.append(Dropout{}, {clamped})}));
  const auto steps = find_steps(net.graph);
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[0].dropouts, Indices{1});
  EXPECT_EQ(steps[0].clamp, 2U);
  EXPECT_EQ(steps[0].output, clamped);
  EXPECT_EQ(steps[1].node, 3U);
  EXPECT_EQ(steps[2].node, 4U);
}

TEST(FindSteps, ABatchNormAfterDropoutIsNotFolded) {
  SmallGraph net;
  net.output(net.batch_norm(net.append(Dropout{}, {net.conv(net.input())})));
  EXPECT_EQ(find_steps(net.graph).size(), 3U);
}

TEST(FindSteps, ALinearOfSeveralRowsDoesNotFoldABatchNorm) {
  SmallGraph rows({3, 6});
  rows.output(rows.batch_norm(rows.linear(rows.input())));
  EXPECT_EQ(find_steps(rows.graph).size(), 2U);
  SmallGraph row({6});
  row.output(row.batch_norm(row.linear(row.input())));
  EXPECT_EQ(find_steps(row.graph).size(), 1U);
}

TEST(FindStepsProperty, EveryNodeBelongsToExactlyOneStepAndEveryReadValueExists) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = test::random_float_graph(seed);
    std::multiset<std::size_t> nodes;
    std::set<ValueId> computed(graph.inputs.begin(), graph.inputs.end());
    for (const Step& step : find_steps(graph)) {
      nodes.insert(step.node);
      for (const auto& part : {step.batch_norm, step.add, step.clamp})
        if (part) nodes.insert(*part);
      nodes.insert(step.dropouts.begin(), step.dropouts.end());
      for (const ValueId input : graph.nodes[step.node].inputs) ASSERT_TRUE(computed.contains(input));
      ASSERT_TRUE(!step.residual || computed.contains(*step.residual));
      computed.insert(step.output);
    }
    ASSERT_EQ(nodes.size(), graph.nodes.size());
    for (std::size_t node = 0; node < graph.nodes.size(); ++node) ASSERT_EQ(nodes.count(node), 1U);
    for (const ValueId output : graph.outputs) ASSERT_TRUE(computed.contains(output));
  }
}

}  // namespace
}  // namespace podaq
