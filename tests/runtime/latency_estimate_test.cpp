#include "podaq/runtime/latency_estimate.h"

#include <gtest/gtest.h>

#include <string>

#include "podaq/core/error.h"
#include "runtime/avx512.h"
#include "runtime/synthetic_network.h"

namespace podaq::test {
namespace {

const LatencyEstimateOptions on_avx512{.isa = Isa::avx512, .tuning_file = {}};

Graph small_network(std::int64_t channels, std::int64_t positions) {
  runtime_detail::NetworkBuilder net({2, positions});
  net.conv(channels, 3);
  net.conv(channels, 3);
  net.max_pool();
  net.flatten();
  net.linear(128);
  net.linear(8, true);
  return net.finish();
}

double total_us(const Graph& graph, const LatencyEstimateOptions& options = on_avx512) {
  return estimate_latency(graph, options).total_us;
}

TEST(LatencyEstimate, RisesWithTheSizeOfTheNetwork) {
  if (!has_avx512()) GTEST_SKIP() << "needs AVX-512 with VNNI";
  const double small = total_us(small_network(32, 128));
  EXPECT_GT(small, 0.0);
  EXPECT_GT(total_us(small_network(64, 128)), small);
  EXPECT_GT(total_us(small_network(32, 256)), small);
}

TEST(LatencyEstimate, FallsWithSparsityWhereSparseKernelsAreChosen) {
  if (!has_avx512()) GTEST_SKIP() << "needs AVX-512 with VNNI";
  const Graph dense = small_network(64, 512);
  double last = total_us(dense);
  for (const double sparsity : {0.9, 0.95, 0.98}) {
    const double us = total_us(runtime_detail::prune(dense, sparsity));
    EXPECT_LT(us, last) << sparsity;
    last = us;
  }
  LatencyEstimateOptions without_sparse = on_avx512;
  without_sparse.sparse = SparseKernels::never;
  EXPECT_EQ(total_us(runtime_detail::prune(dense, 0.95), without_sparse), total_us(dense, without_sparse));
}

TEST(LatencyEstimate, SparseLinearsCountTheirNonzeros) {
  if (!has_avx512()) GTEST_SKIP() << "needs AVX-512 with VNNI";
  runtime_detail::NetworkBuilder net({2, 8});
  net.conv(64, 3);
  net.flatten();
  net.linear(512);
  net.linear(8, true);
  const Graph dense = net.finish();
  EXPECT_LT(total_us(runtime_detail::prune(dense, 0.97)), total_us(dense));
}

TEST(LatencyEstimate, IsTheSameEveryTime) {
  if (!has_avx512()) GTEST_SKIP() << "needs AVX-512 with VNNI";
  const Graph graph = runtime_detail::prune(small_network(64, 256), 0.9);
  EXPECT_EQ(total_us(graph), total_us(graph));
}

TEST(LatencyEstimate, ListsEveryNodeAndAddsUpThoseItKnows) {
  if (!has_avx512()) GTEST_SKIP() << "needs AVX-512 with VNNI";
  const Graph graph = small_network(64, 256);
  const LatencyEstimate estimate = estimate_latency(graph, on_avx512);
  ASSERT_EQ(estimate.nodes.size(), graph.nodes.size());
  double sum = 0.0;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const NodeLatency& node = estimate.nodes[i];
    EXPECT_EQ(node.node, graph.nodes[i].name);
    const Op& op = graph.nodes[i].op;
    const bool is_layer = std::holds_alternative<Conv>(op) || std::holds_alternative<Linear>(op);
    EXPECT_TRUE(!is_layer || node.us.value_or(0.0) > 0.0) << node.node << " by " << node.kernel;
    sum += node.us.value_or(0.0);
  }
  EXPECT_DOUBLE_EQ(estimate.total_us, sum);
}

// What a kernel does once a batch is shared by its samples.
TEST(LatencyEstimate, LargerBatchesTakeNoLongerPerSample) {
  if (!has_avx512()) GTEST_SKIP() << "needs AVX-512 with VNNI";
  const Graph graph = small_network(32, 128);
  LatencyEstimateOptions batch = on_avx512;
  batch.batch = 16;
  EXPECT_LT(total_us(graph, batch), total_us(graph));
}

TEST(LatencyEstimate, NodesWithoutCoefficientsHaveNoEstimateAndAddNothing) {
  const LatencyEstimate estimate = estimate_latency(small_network(8, 16), {.isa = Isa::reference, .tuning_file = {}});
  EXPECT_EQ(estimate.total_us, 0.0);
  for (const NodeLatency& node : estimate.nodes) EXPECT_FALSE(node.us.has_value()) << node.node;
}

TEST(LatencyEstimate, RefusesABatchOutsideItsRangeByName) {
  for (const std::size_t batch : {std::size_t{0}, std::size_t{65537}}) {
    try {
      (void)estimate_latency(small_network(8, 16), {.batch = batch, .isa = Isa::reference});
      ADD_FAILURE() << batch;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("batch is"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("[1, 65536]"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace podaq::test
