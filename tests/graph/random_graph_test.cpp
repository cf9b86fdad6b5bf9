#include "support/random_graph.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "podaq/graph/verify.h"

namespace podaq {
namespace {

TEST(RandomGraphProperty, FloatGraphsVerifyAndCoverEveryFloatOp) {
  std::set<std::string> ops;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = test::random_float_graph(seed);
    ASSERT_NO_THROW(verify(graph));
    ASSERT_EQ(graph, test::random_float_graph(seed));
    for (const Node& node : graph.nodes) ops.emplace(name_of(node.op));
  }
  EXPECT_EQ(ops.size(), std::variant_size_v<Op> - 2) << "all but quantize and dequantize";
}

TEST(RandomGraphProperty, IntegerGraphsVerifyAndCoverEveryOpButTraining) {
  std::set<std::string> ops;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = test::random_integer_graph(seed);
    ASSERT_NO_THROW(verify(graph));
    for (const Node& node : graph.nodes) ops.emplace(name_of(node.op));
  }
  EXPECT_EQ(ops.size(), std::variant_size_v<Op> - 2) << "all but batch_norm and dropout";
}

}  // namespace
}  // namespace podaq
