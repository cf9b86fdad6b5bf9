#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <set>

#include "podaq/core/file.h"
#include "podaq/core/text.h"
#include "podaq/format/file.h"
#include "podaq/graph/verify.h"

// Files that earlier versions wrote. They must open for ever, so they are compared with graphs spelled out here.
namespace podaq {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(__FILE__).parent_path() / "golden" / name;
}

// Numbers that look random, from a rule that will not change.
class Numbers {
 public:
  int integer(int lowest, int highest) {
    state_ = state_ * 1664525U + 1013904223U;
    return lowest + static_cast<int>((state_ >> 8) % static_cast<std::uint32_t>(highest - lowest + 1));
  }
  float real() { return static_cast<float>(integer(-1000, 1000)) / 512.0F; }

 private:
  std::uint32_t state_ = 1;
};

struct Builder {
  Graph graph;
  Numbers numbers;

  ValueId add(Op op, std::vector<ValueId> inputs, std::vector<std::string> tensors = {},
              std::optional<QParams> qparams = std::nullopt) {
    Node node{.op = std::move(op),
              .name = concat("layer.", graph.nodes.size()),
              .inputs = std::move(inputs),
              .tensors = std::move(tensors),
              .output = 0};
    node.output = add_value(graph, node.name, infer_shape(graph, node), qparams);
    graph.nodes.push_back(node);
    return node.output;
  }

  // Three elements in ten are zero, one of them -0.
  std::string floats(Shape shape, bool positive = false) {
    std::vector<float> elements;
    for (std::int64_t i = 0; i < element_count(shape); ++i) {
      const float number = i % 10 == 3 ? -0.0F : i % 10 < 2 ? 0.0F : numbers.real();
      elements.push_back(positive ? number * number + 0.5F : number);
    }
    return keep(make_tensor<float>(DType::f32, std::move(shape), elements));
  }

  std::string codes(Shape shape, int bits, bool per_channel, bool sparse) {
    const int limit = (1 << (bits - 1)) - 1;
    std::vector<std::int8_t> elements;
    for (std::int64_t i = 0; i < element_count(shape); ++i)
      elements.push_back(static_cast<std::int8_t>(sparse && i % 4 != 0 ? 0 : numbers.integer(-limit, limit)));
    const std::size_t scales = per_channel ? static_cast<std::size_t>(shape[0]) : 1;
    Tensor tensor = make_tensor<std::int8_t>(DType::s8, std::move(shape), elements);
    tensor.bits = bits;
    for (std::size_t i = 0; i < scales; ++i)
      tensor.scales.push_back(0.001F * static_cast<float>(numbers.integer(1, 9)));
    return keep(std::move(tensor));
  }

  std::string integers(Shape shape) {
    std::vector<std::int32_t> elements;
    for (std::int64_t i = 0; i < element_count(shape); ++i) elements.push_back(numbers.integer(-5000, 5000));
    return keep(make_tensor<std::int32_t>(DType::i32, std::move(shape), elements));
  }

  std::string keep(Tensor tensor) {
    const std::string name = concat("layer.", graph.nodes.size(), ".tensor", graph.tensors.size());
    graph.tensors.emplace(name, std::move(tensor));
    return name;
  }
};

Conv conv_of(std::size_t spatial, std::int64_t groups) {
  return Conv{.stride = std::vector<std::int64_t>(spatial, 1),
              .pads_begin = std::vector<std::int64_t>(spatial, 1),
              .pads_end = std::vector<std::int64_t>(spatial, 1),
              .dilation = std::vector<std::int64_t>(spatial, 1),
              .groups = groups,
              .adds_input = false,
              .clamp = {}};
}

// Every op that works on float.
Graph float_graph() {
  Builder b;
  b.graph.inputs = {add_value(b.graph, "iq", {4, 12}), add_value(b.graph, "image", {3, 8, 9})};
  ValueId v = b.add(conv_of(1, 2), {0}, {b.floats({8, 2, 3}), b.floats({8})});
  const std::string channels = b.floats({8});
  v = b.add(BatchNorm{.epsilon = 1e-3, .momentum = 0.2}, {v}, {channels, "", b.floats({8}), b.floats({8}, true), ""});
  v = b.add(Clamp{.minimum = 0.0F, .maximum = infinity}, {v});
  v = b.add(BatchNorm{.epsilon = 1e-5, .momentum = {}}, {v},
            {channels, channels, b.floats({8}), b.floats({8}, true), b.integers({})});
  v = b.add(MaxPool{.kernel = {3}, .stride = {2}, .pads_begin = {1}, .pads_end = {0}, .dilation = {1}}, {v});
  v = b.add(Affine{.factor = 0.5F, .offset = -0.0F}, {v});
  v = b.add(Activation{.kind = ActivationKind::leaky_relu, .alpha = 0.01F}, {v});
  v = b.add(Dropout{.p = 0.25, .channels = true}, {v});
  const ValueId series = b.add(GlobalMax{}, {v});

  Conv strided = conv_of(2, 1);
  strided.stride = {2, 1};
  strided.pads_end = {0, 1};
  strided.clamp = Clamp{.minimum = 0.0F, .maximum = 6.0F};
  v = b.add(strided, {1}, {b.floats({4, 3, 3, 3}), ""});
  Conv dilated = conv_of(2, 4);
  dilated.dilation = dilated.pads_begin = dilated.pads_end = {1, 2};
  dilated.adds_input = true;
  v = b.add(dilated, {v, v}, {b.floats({4, 1, 3, 3}), b.floats({4})});
  const ValueId branch = b.add(Activation{.kind = ActivationKind::gelu, .alpha = 0.0F}, {v});
  v = b.add(Add{.clamp = Clamp{.minimum = -1.0F, .maximum = 1.0F}}, {v, branch});
  v = b.add(Mul{}, {v, branch});
  v = b.add(Concat{.axis = 0}, {v, branch, v});
  v = b.add(
      AvgPool{.kernel = {2, 2}, .stride = {1, 2}, .pads_begin = {1, 0}, .pads_end = {1, 0}, .count_padding = false},
      {v});
  v = b.add(AdaptivePool{.kind = AdaptivePool::Kind::max, .output_size = {2, 3}}, {v});
  const ValueId pooled = b.add(GlobalMean{}, {v});
  v = b.add(Reshape{.shape = {72}}, {v});
  v = b.add(Linear{.adds_input = false, .clamp = {}}, {v}, {b.floats({8, 72}), b.floats({8})});
  v = b.add(Linear{.adds_input = true, .clamp = Clamp{.minimum = 0.0F, .maximum = infinity}}, {v, series},
            {b.floats({8, 8}), ""});
  v = b.add(Softmax{.axis = 0, .logarithm = true}, {v});
  b.graph.values[v].name = "classes";
  b.graph.outputs = {v, pooled};
  b.graph.metadata = {{"classes", "BPSK,QPSK"}, {"producer", "podaq 0.1.0"}};
  return b.graph;
}

// What a converted graph holds: quantized input, weights of 8 and 4 bits, sparse and dense, per tensor and channel.
Graph integer_graph() {
  Builder b;
  const QParams codes{.scale = 0.02F, .zero_point = 3, .lowest = 0, .highest = 255};
  const QParams few{.scale = 0.25F, .zero_point = 0, .lowest = 0, .highest = 15};
  b.graph.inputs = {add_value(b.graph, "iq", {2, 32})};
  ValueId v = b.add(Quantize{}, {0}, {}, codes);
  v = b.add(conv_of(1, 1), {v}, {b.codes({16, 2, 3}, 8, true, false), b.integers({16})}, codes);
  const ValueId branch = v;
  v = b.add(conv_of(1, 1), {v}, {b.codes({16, 16, 3}, 8, true, true), b.integers({16})}, codes);
  Conv fused = conv_of(1, 2);
  fused.adds_input = true;
  fused.clamp = Clamp{.minimum = 0.0F, .maximum = infinity};
  v = b.add(fused, {v, branch}, {b.codes({16, 8, 3}, 4, true, true), b.integers({16})}, few);
  v = b.add(GlobalMean{}, {v}, {}, codes);
  v = b.add(Linear{.adds_input = false, .clamp = {}}, {v}, {b.codes({5, 16}, 3, false, false), ""});
  b.graph.outputs = {v};
  b.graph.metadata = {{"recipe", "prune 80 %, int8"}};
  return b.graph;
}

void expect_golden(const std::string& name, const Graph& expected) {
  ASSERT_NO_THROW(verify(expected));
  const Graph read = load(golden(name));
  EXPECT_EQ(read, expected);
  for (const auto& [tensor_name, tensor] : expected.tensors)  // -0 too, which == takes for 0.
    EXPECT_EQ(read.tensors.at(tensor_name).bytes, tensor.bytes) << tensor_name;
  EXPECT_EQ(decode(encode(expected)), expected);
}

TEST(Golden, FloatFileOfVersion1Opens) {
  expect_golden("float_v1.podaq", float_graph());
}

TEST(Golden, IntegerFileOfVersion1Opens) {
  expect_golden("integer_v1.podaq", integer_graph());
}

// Where an op's alternative stands decides its number in the file.
TEST(Golden, EveryOpIsInAGoldenFile) {
  std::set<std::size_t> seen = {Op(Dequantize{}).index()};  // Holds nothing but its number, which the schema asserts.
  for (const Graph& graph : {float_graph(), integer_graph()})
    for (const Node& node : graph.nodes) seen.insert(node.op.index());
  EXPECT_EQ(seen.size(), std::variant_size_v<Op>);
}

// Run by hand, once, when a version is released: --gtest_also_run_disabled_tests --gtest_filter=*WriteGoldenFiles.
TEST(Golden, DISABLED_WriteGoldenFiles) {
  save(float_graph(), golden("float_v1.podaq"));
  save(integer_graph(), golden("integer_v1.podaq"));
}

}  // namespace
}  // namespace podaq
