// reference/amc.md 3.1: the challenge's own figures.

#include "amc/itu_score.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "podaq/graph/verify.h"

namespace podaq::amc {
namespace {

// A chain of layers with codes of `bits` bits between them, all weights 1 until they are changed.
struct CodeChain {
  Graph graph;
  ValueId last = 0;
  int bits = 8;

  CodeChain(Shape input, int bits_of_all) : bits(bits_of_all) {
    last = add_value(graph, "x", std::move(input), codes());
    graph.inputs = {last};
  }

  [[nodiscard]] std::optional<QParams> codes() const { return QParams{.highest = (1 << bits) - 1}; }

  void layer(Op op, const std::string& name, const Shape& weight) {
    const auto count = static_cast<std::size_t>(element_count(weight));
    graph.tensors[name] = make_tensor<std::int8_t>(DType::s8, weight, std::vector<std::int8_t>(count, 1));
    graph.tensors[name].scales = {1.0F};
    graph.tensors[name].bits = bits;
    append({.op = std::move(op), .name = name, .inputs = {last}, .tensors = {name, ""}});
  }

  void conv(const std::string& name, std::int64_t outputs, std::int64_t taps, std::int64_t groups = 1) {
    const std::int64_t inputs = graph.values[last].shape[0];
    layer(Conv{.stride = {1},
               .pads_begin = {taps / 2},
               .pads_end = {taps / 2},
               .dilation = {1},
               .groups = groups,
               .adds_input = false,
               .clamp = {}},
          name, {outputs, inputs / groups, taps});
  }

  void linear(const std::string& name, std::int64_t outputs) {
    layer(Linear{}, name, {outputs, graph.values[last].shape.back()});
  }

  void append(Node node) {
    node.output = add_value(graph, node.name + ".out", {}, codes());
    graph.values[node.output].shape = infer_shape(graph, node);
    last = node.output;
    graph.nodes.push_back(std::move(node));
  }
};

CodeChain vgg10_1d() {
  CodeChain net({2, 1024}, 8);
  for (int block = 0; block < 7; ++block) {
    net.conv("conv" + std::to_string(block), 64, 3);
    net.append({.op = MaxPool{.kernel = {2}, .stride = {2}, .pads_begin = {0}, .pads_end = {0}, .dilation = {1}},
                .name = "pool" + std::to_string(block),
                .inputs = {net.last},
                .tensors = {}});
  }
  net.append({.op = Reshape{.shape = {512}}, .name = "flatten", .inputs = {net.last}, .tensors = {}});
  net.linear("linear0", 128);
  net.linear("linear1", 128);
  net.linear("linear2", 24);
  return net;
}

TEST(ItuScore, OfTheDenseVgg10IsTheChallenges) {
  const ItuCost cost = itu_cost(vgg10_1d().graph);
  EXPECT_EQ(cost.bit_operations, 12'864'512.0 * 64);
  EXPECT_EQ(cost.weight_bits, 1'272'832);
  EXPECT_NEAR(itu_score(cost), 1.02088, 5e-6);
  EXPECT_EQ(itu_score({.bit_operations = 807'699'904, .weight_bits = 1'244'936}), 1);
}

// 3 x 2 x 3 weights of 6 bits, 5 of them 0, at 8 positions under 6-bit codes.
TEST(ItuScore, CountsNonzeroWeightsAndTheirBits) {
  CodeChain net({2, 8}, 6);
  net.conv("conv", 3, 3);
  for (const std::size_t zero : {0, 4, 5, 9, 17}) net.graph.tensors["conv"].bytes[zero] = std::byte{0};
  const ItuCost cost = itu_cost(net.graph);
  EXPECT_EQ(cost.weight_bits, 13 * 6);
  EXPECT_EQ(cost.bit_operations, 13 * 6 * 8 * 6);
}

TEST(ItuScore, DepthwiseLayersHaveTheirOwnWeightsAloneAndFloats32Bits) {
  CodeChain net({4, 10}, 8);
  net.conv("depthwise", 4, 5, 4);
  EXPECT_EQ(itu_cost(net.graph).bit_operations, 4 * 5 * 10 * 64);
  net.graph.values[net.graph.inputs[0]].qparams.reset();
  EXPECT_EQ(itu_cost(net.graph).bit_operations, 4 * 5 * 10 * 8 * 32);
  net.graph.tensors["depthwise"] = make_tensor<float>(DType::f32, {4, 1, 5}, std::vector<float>(20, 0.5F));
  EXPECT_EQ(itu_cost(net.graph).bit_operations, 4 * 5 * 10 * 32 * 32);
  EXPECT_EQ(itu_cost(net.graph).weight_bits, 4 * 5 * 32);
}

}  // namespace
}  // namespace podaq::amc
