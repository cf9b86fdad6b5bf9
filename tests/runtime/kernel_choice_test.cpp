#include <gtest/gtest.h>

#include "podaq/graph/verify.h"
#include "runtime/avx512.h"
#include "runtime/layers.h"
#include "runtime/support.h"
#include "runtime/synthetic_network.h"

namespace podaq::test {
namespace {

constexpr QParams qparams{.scale = 0.02F, .zero_point = 91, .lowest = 0, .highest = 255};

// A 3 or 3x3 convolution of 64 to 64 channels, of which a share of the weights is left.
Graph conv_graph(double density, const Shape& input = {64, 16, 16}) {
  Draws draws(3);
  const std::size_t spatial = input.size() - 1;
  Shape weight_shape = {64, 64};
  weight_shape.insert(weight_shape.end(), spatial, 3);
  CodeLayer layer{.input = input,
                  .op = conv_of({.spatial = spatial, .pad = 1}),
                  .weight_shape = weight_shape,
                  .weights = std::vector<std::int8_t>(static_cast<std::size_t>(element_count(weight_shape)), 0),
                  .bias = {},
                  .weight_scales = {0.001F},
                  .input_qparams = qparams,
                  .output_qparams = qparams};
  for (auto& w : layer.weights)
    if (draws.chance(density)) w = static_cast<std::int8_t>(draws.integer(1, 127));
  return graph_of(layer);
}

std::string conv_kernel(const Graph& graph, SparseKernels sparse) {
  for (const KernelChoice& choice :
       Model(graph, {.read = {}, .isa = Isa::avx512, .sparse = sparse, .tuning_file = {}}).kernels())
    if (choice.op == "conv") return choice.kernel;
  return "";
}

TEST(KernelChoice, FollowsTheSparsity) {
  if (!has_avx512()) GTEST_SKIP() << "needs AVX-512 with VNNI";
  const auto second_kernel = [](double sparsity) {
    runtime_detail::NetworkBuilder net({2, 16, 16});
    net.conv(64, 3);
    net.conv(64, 3);
    net.max_pool();
    net.flatten();
    net.linear(4, true);
    const Graph graph = runtime_detail::prune(net.finish(), sparsity);
    return Model(graph, {.read = {}, .isa = Isa::avx512, .tuning_file = {}}).kernels()[2].kernel;
  };
  EXPECT_EQ(second_kernel(0.5), "avx512_quad_conv");
  EXPECT_EQ(second_kernel(0.95), "avx512_sparse_conv");
}

TEST(KernelChoice, CanBeForced) {
  if (!has_avx512()) GTEST_SKIP() << "needs AVX-512 with VNNI";
  EXPECT_EQ(conv_kernel(conv_graph(0.05), SparseKernels::never), "avx512_quad_conv");
  EXPECT_EQ(conv_kernel(conv_graph(1.0), SparseKernels::always), "avx512_sparse_conv");
}

// A panel of 64 positions costs the same however few of them there are.
TEST(KernelChoice, LeavesShortLayersDense) {
  if (!has_avx512()) GTEST_SKIP() << "needs AVX-512 with VNNI";
  EXPECT_EQ(conv_kernel(conv_graph(0.3, {64, 3}), SparseKernels::automatic), "avx512_quad_conv");
}

// What a neighbour absorbed costs nothing of its own, and its reason names the neighbour.
TEST(KernelChoice, TellsWhyAndWhatItExpects) {
  if (!has_avx512()) GTEST_SKIP() << "needs AVX-512 with VNNI";
  runtime_detail::NetworkBuilder net({2, 256});
  net.conv(64, 3);
  net.conv(64, 3);
  net.max_pool();
  net.flatten();
  net.linear(4, true);
  const Graph graph = net.finish();
  const auto dense = Model(graph, {.read = {}, .isa = Isa::avx512, .tuning_file = {}}).kernels();
  ASSERT_EQ(dense.size(), 6U);
  EXPECT_EQ(dense[0].reason, "absorbed by node1");
  EXPECT_EQ(dense[2].kernel, "avx512_quad_conv");
  EXPECT_EQ(dense[2].reason.find("0 % zeros; sparse: "), 0U) << dense[2].reason;
  EXPECT_GT(dense[2].estimated_us, 0.0);
  EXPECT_EQ(dense[3].reason, "absorbed by node2");
  EXPECT_EQ(dense[3].estimated_us, 0.0);
  const auto sparse =
      Model(runtime_detail::prune(graph, 0.97), {.read = {}, .isa = Isa::avx512, .tuning_file = {}}).kernels();
  EXPECT_EQ(sparse[2].kernel, "avx512_sparse_conv");
  EXPECT_EQ(sparse[2].reason.find("97 % zeros; dense: "), 0U) << sparse[2].reason;
  for (std::size_t i = 0; i < 4; ++i) EXPECT_GT(sparse[i].estimated_us, 0.0) << sparse[i].node;
}

// The sparse kernel rounds before it limits: sums that may leave 32 bits are left to others.
TEST(KernelChoice, SumsThatRoundBeyond32BitsAreNeverSparse) {
  if (!has_avx512()) GTEST_SKIP() << "needs AVX-512 with VNNI";
  CodeLayer layer{.input = {4, 80},
                  .op = conv_of({}),
                  .weight_shape = {4, 4, 1},
                  .weights = std::vector<std::int8_t>(16, 0),
                  .bias = {},
                  .weight_scales = {1.0e6F},
                  .input_qparams = {.scale = 1.0F, .zero_point = 0, .lowest = 0, .highest = 255},
                  .output_qparams = QParams{.scale = 1.0F, .zero_point = 3, .lowest = 0, .highest = 255}};
  layer.weights[0] = 127;
  layer.weights[5] = -127;
  const Graph graph = graph_of(layer);
  EXPECT_EQ(conv_kernel(graph, SparseKernels::automatic), "avx512_quad_conv");
  EXPECT_EQ(conv_kernel(graph, SparseKernels::always),
            "integer_conv");  // all is planar, which the dense one never writes
  Draws draws(1);
  const Model reference(graph, {.read = {}, .isa = Isa::reference});
  const auto inputs = random_inputs(reference, 2, draws);
  const Model model(graph, {.read = {}, .isa = Isa::avx512, .sparse = SparseKernels::always});
  EXPECT_TRUE(same_bits(run_model(model, inputs, 2, 2), run_model(reference, inputs, 2, 2)));
}

}  // namespace
}  // namespace podaq::test
