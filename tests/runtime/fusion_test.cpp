// Nodes that a neighbour's kernel takes over: when it does, and that the results stay those of the reference.

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "podaq/core/text.h"
#include "podaq/graph/verify.h"
#include "runtime/layers.h"
#include "runtime/support.h"

namespace podaq::test {
namespace {

constexpr QParams codes{.scale = 0.04F, .zero_point = 90, .lowest = 0, .highest = 255};

// quantize -> conv -> max pool -> flatten -> linear, each named.
struct Chain {
  Shape input = {5, 9, 11};
  std::int64_t outputs = 20;
  float weight_scale = 0.001F;
  QParams pooled = codes;
  MaxPool pool = {.kernel = {2, 2}, .stride = {2, 2}, .pads_begin = {0, 0}, .pads_end = {0, 0}, .dilation = {1, 1}};
};

std::string add_weight(Graph& graph, const std::string& name, const Shape& shape, float scale, Draws& draws) {
  std::vector<std::int8_t> weights(static_cast<std::size_t>(element_count(shape)));
  for (auto& weight : weights) weight = static_cast<std::int8_t>(draws.integer(-127, 127));
  graph.tensors[name] = make_tensor<std::int8_t>(DType::s8, shape, weights);
  graph.tensors[name].scales = {scale};
  return name;
}

ValueId append(Graph& graph, const std::string& name, const Op& op, ValueId input, std::optional<QParams> qparams,
               const std::string& weight = "") {
  Node node{.op = op, .name = name, .inputs = {input}, .tensors = {}};
  if (!weight.empty()) node.tensors = {weight, ""};
  node.output = add_value(graph, name + ".output", infer_shape(graph, node), qparams);
  graph.nodes.push_back(node);
  return node.output;
}

Graph graph_of(const Chain& chain) {
  Draws draws(7);
  Graph graph;
  graph.inputs = {add_value(graph, "input", chain.input)};
  const auto spatial = chain.input.size() - 1;
  Shape kernel = {chain.outputs, chain.input[0]};
  kernel.insert(kernel.end(), spatial, 3);
  ValueId last = append(graph, "quantize", Quantize{}, graph.inputs[0], codes);
  last = append(graph, "conv", conv_of({.spatial = spatial, .pad = 1}), last, codes,
                add_weight(graph, "conv.weight", kernel, chain.weight_scale, draws));
  last = append(graph, "pool", chain.pool, last, chain.pooled);
  const std::int64_t features = element_count(graph.values[last].shape);
  last = append(graph, "flatten", Reshape{.shape = {features}}, last, chain.pooled);
  last = append(graph, "linear", Linear{}, last, std::nullopt,
                add_weight(graph, "linear.weight", {7, features}, 0.001F, draws));
  graph.outputs = {last};
  return graph;
}

std::map<std::string, std::string> kernels_of(const Graph& graph, Isa isa) {
  std::map<std::string, std::string> kernels;
  for (const KernelChoice& choice : Model(graph, {.read = {}, .isa = isa, .sparse = SparseKernels::never}).kernels())
    kernels[choice.node] = choice.kernel;
  return kernels;
}

void expect_reference_bits(const Graph& graph, const std::string& what) {
  const Model reference(graph, {.read = {}, .isa = Isa::reference});
  for (const std::size_t batch : {std::size_t{1}, std::size_t{6}}) {
    Draws draws(batch);
    const auto inputs = random_inputs(reference, batch, draws);
    const std::vector<float> expected = run_model(reference, inputs, batch, 1);
    for (const Isa isa : runnable_isas()) {
      for (const SparseKernels sparse : {SparseKernels::never, SparseKernels::always}) {
        const Model model(graph, {.read = {}, .isa = isa, .sparse = sparse});
        EXPECT_TRUE(same_bits(run_model(model, inputs, batch, batch), expected)) << what << " " << kernel_names(model);
      }
    }
  }
}

std::vector<Isa> absorbing_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : runnable_isas())
    if (isa >= Isa::avx512) isas.push_back(isa);
  return isas;
}

TEST(Fusion, AConvTakesOverItsQuantizeAndItsMaxPoolAndALinearItsFlatten) {
  const Graph graph = graph_of(Chain{});
  for (const Isa isa : absorbing_isas()) {
    const auto kernels = kernels_of(graph, isa);
    EXPECT_EQ(kernels.size(), 5U);
    EXPECT_EQ(kernels.at("quantize"), kernels.at("conv"));
    EXPECT_EQ(kernels.at("pool"), kernels.at("conv"));
    EXPECT_EQ(kernels.at("flatten"), kernels.at("linear"));
  }
  expect_reference_bits(graph, "chain");
}

TEST(Fusion, PoolingsOfEverySizeGiveTheReferenceBits) {
  for (const std::int64_t height : {1, 2, 3, 4})
    for (const std::int64_t width : {1, 2, 3, 4}) {
      Chain chain;
      chain.pool.kernel = chain.pool.stride = {height, width};
      expect_reference_bits(graph_of(chain), concat("pool ", height, "x", width));
      Chain flat{.input = {5, 37}};
      flat.pool = {.kernel = {width}, .stride = {width}, .pads_begin = {0}, .pads_end = {0}, .dilation = {1}};
      expect_reference_bits(graph_of(flat), concat("pool ", width));
    }
}

// Windows that overlap, are padded or dilated, or change parameters are the pooling kernel's business.
TEST(Fusion, OtherPoolingsStayNodesOfTheirOwn) {
  std::vector<Chain> chains(5);
  chains[0].pool.stride = {1, 1};
  chains[1].pool.pads_begin = {1, 1};
  chains[2].pool.pads_end = {1, 1};
  chains[3].pool.dilation = {2, 2};
  chains[4].pooled.scale = 0.05F;
  for (std::size_t i = 0; i < chains.size(); ++i) {
    const Graph graph = graph_of(chains[i]);
    for (const Isa isa : absorbing_isas()) {
      const auto kernels = kernels_of(graph, isa);
      EXPECT_NE(kernels.at("pool"), kernels.at("conv")) << i;
    }
    expect_reference_bits(graph, concat("other pooling ", i));
  }
}

// Sums that saturate when scaled must not be packed by saturating instructions.
TEST(Fusion, LargeMultipliersGiveTheReferenceBits) {
  for (const float scale : {0.9F, 40.0F, 1e30F, 8e37F}) {
    const Graph graph = graph_of(Chain{.weight_scale = scale});
    for (const Isa isa : absorbing_isas())
      EXPECT_NE(kernels_of(graph, isa).at("pool"), kernels_of(graph, isa).at("conv"));
    expect_reference_bits(graph, "weight scale " + std::to_string(scale));
  }
}

TEST(Fusion, AValueThatOthersReadIsStored) {
  Graph graph = graph_of(Chain{});
  for (const std::size_t node : {0, 1, 3}) {
    Graph shown = graph;
    shown.outputs.push_back(append(shown, "shown", Dequantize{}, shown.nodes[node].output, std::nullopt));
    for (const Isa isa : absorbing_isas()) {
      const auto kernels = kernels_of(shown, isa);
      if (node == 0) {
        EXPECT_NE(kernels.at("quantize"), kernels.at("conv"));
      }
      if (node == 1) {
        EXPECT_NE(kernels.at("pool"), kernels.at("conv"));
      }
      if (node == 3) {
        EXPECT_NE(kernels.at("flatten"), kernels.at("linear"));
      }
    }
    expect_reference_bits(shown, concat("node ", node, " shown"));
  }
}

}  // namespace
}  // namespace podaq::test
