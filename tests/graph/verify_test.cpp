#include "podaq/graph/verify.h"

#include <gtest/gtest.h>

#include <limits>
#include <ostream>
#include <string>

#include "podaq/core/error.h"
#include "support/random_graph.h"
#include "support/small_graph.h"

namespace podaq {
namespace {

using test::SmallGraph;

constexpr float infinity = std::numeric_limits<float>::infinity();

// x -> conv0 (-> batch_norm1) -> clamp2 -> global_mean3 -> linear4 -> out
Graph float_graph() {
  SmallGraph net;
  const ValueId features = net.append(Clamp{.minimum = 0.0F}, {net.batch_norm(net.conv(net.input()))});
  net.output(net.linear(net.append(GlobalMean{}, {features})));
  return net.graph;
}

Tensor codes(const Shape& shape, std::int8_t code, std::size_t scales) {
  const std::vector<std::int8_t> values(static_cast<std::size_t>(element_count(shape)), code);
  Tensor tensor = make_tensor<std::int8_t>(DType::s8, shape, values);
  tensor.scales.assign(scales, 0.01F);
  return tensor;
}

// x -> quantize0 -> conv1 (adds quantize0) -> global_mean2 -> activation3 -> linear4 -> float out; and mul5 ->
// dequantize6 -> second output.
Graph integer_graph() {
  SmallGraph net;
  const QParams q{.scale = 0.02F, .zero_point = 100, .lowest = 0, .highest = 255};
  auto& builder = net.builder;
  net.graph.tensors["conv1.weight"] = codes({4, 4, 3}, 5, 4);
  net.graph.tensors["conv1.bias"] = make_tensor<std::int32_t>(DType::i32, {4}, std::vector<std::int32_t>{1, 2, 3, 4});
  net.graph.tensors["linear4.weight"] = codes({2, 4}, -7, 1);
  const ValueId x = builder.append(Quantize{}, {net.input()}, {}, q);
  const Conv conv{.stride = {1},
                  .pads_begin = {1},
                  .pads_end = {1},
                  .dilation = {1},
                  .groups = 1,
                  .adds_input = true,
                  .clamp = Clamp{.minimum = 0.0F}};
  const ValueId features = builder.append(conv, {x, x}, {"conv1.weight", "conv1.bias"}, q);
  const ValueId mean = builder.append(GlobalMean{}, {features}, {}, q);
  const ValueId activated = builder.append(Activation{.kind = ActivationKind::silu}, {mean}, {}, q);
  net.output(builder.append(Linear{}, {activated}, {"linear4.weight", ""}));
  const ValueId product = builder.append(Mul{}, {mean, activated}, {}, q);
  net.output(builder.append(Dequantize{}, {product}));
  return net.graph;
}

// Plain pointers, since a list of 40 that must be destroyed takes the compiler long.
struct Breakage {
  const char* what;
  bool on_codes;
  void (*apply)(Graph&);
  const char* offender;  // what the error must name

  friend void PrintTo(const Breakage& example, std::ostream* out) { *out << example.what; }
};

void expect_refused(const Graph& graph, const std::string& offender) {
  try {
    verify(graph);
    ADD_FAILURE() << "should have been refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::graph);
    EXPECT_NE(std::string(error.what()).find(offender), std::string::npos) << error.what();
  }
}

class VerifyRefuses : public testing::TestWithParam<Breakage> {};

TEST_P(VerifyRefuses, AndNamesTheOffender) {
  Graph graph = GetParam().on_codes ? integer_graph() : float_graph();
  ASSERT_NO_THROW(verify(graph));
  GetParam().apply(graph);
  expect_refused(graph, GetParam().offender);
}

QParams& qparams(Graph& graph, std::size_t value) {
  return *graph.values.at(value).qparams;
}

INSTANTIATE_TEST_SUITE_P(
    Structure, VerifyRefuses,
    testing::Values(
        Breakage{"input_id", false, [](Graph& g) { g.nodes[2].inputs[0] = 99; }, "'clamp2'"},
        Breakage{"output_id", false, [](Graph& g) { g.nodes[2].output = 99; }, "'clamp2'"},
        Breakage{"graph_input_id", false, [](Graph& g) { g.inputs.push_back(99); }, "99"},
        Breakage{"graph_output_id", false, [](Graph& g) { g.outputs.push_back(99); }, "99"},
        Breakage{"graph_input_twice", false, [](Graph& g) { g.inputs.push_back(g.inputs[0]); }, "'x'"},
        Breakage{"graph_output_twice", false, [](Graph& g) { g.outputs.push_back(g.outputs[0]); }, "'linear4.out'"},
        Breakage{"no_output", false, [](Graph& g) { g.outputs.clear(); }, "no output"},
        Breakage{"output_is_input", false, [](Graph& g) { g.outputs.push_back(g.inputs[0]); }, "'x'"},
        Breakage{"output_never_computed", false, [](Graph& g) { g.outputs.push_back(add_value(g, "lonely", {1})); },
                 "'lonely'"},
        Breakage{"cycle", false, [](Graph& g) { g.nodes[2].inputs[0] = g.nodes[2].output; }, "'clamp2'"},
        Breakage{"read_before_computed", false, [](Graph& g) { std::swap(g.nodes[1], g.nodes[2]); }, "'clamp2'"},
        Breakage{"computed_twice", false, [](Graph& g) { g.nodes[2].output = g.nodes[1].output; }, "'clamp2'"},
        Breakage{"computes_graph_input", false, [](Graph& g) { g.nodes[2].output = g.inputs[0]; }, "'clamp2'"},
        Breakage{"node_name_twice", false, [](Graph& g) { g.nodes[3].name = "conv0"; }, "'conv0'"},
        Breakage{"value_name_twice", false, [](Graph& g) { g.values[2].name = "x"; }, "'x'"},
        Breakage{"node_name_empty", false, [](Graph& g) { g.nodes[3].name = ""; }, "node"},
        Breakage{"value_name_not_utf8", false, [](Graph& g) { g.values[2].name = "\xC0\xAF"; }, "UTF-8"},
        Breakage{"value_name_surrogate", false, [](Graph& g) { g.values[2].name = "\xED\xA0\x80"; }, "UTF-8"},
        Breakage{"node_name_cut_short", false, [](Graph& g) { g.nodes[2].name = "a\xE2\x82"; }, "UTF-8"},
        Breakage{"tensor_name_not_utf8", false, [](Graph& g) { g.tensors["\xFF"] = g.tensors["conv0.bias"]; }, "UTF-8"},
        Breakage{"metadata_not_utf8", false, [](Graph& g) { g.metadata["key"] = "\xFF"; }, "metadata"},
        Breakage{"value_rank", false, [](Graph& g) { g.values[2].shape.assign(9, 1); }, "'batch_norm1.out'"},
        Breakage{"value_empty", false, [](Graph& g) { g.values[2].shape[0] = 0; }, "'batch_norm1.out'"},
        Breakage{"value_huge", false,
                 [](Graph& g) {
                   g.values[2].shape = {1 << 30, 1 << 30, 1 << 30};
                 },
                 "'batch_norm1.out'"},
        Breakage{"value_too_large", false,
                 [](Graph& g) {
                   g.values[2].shape = {1 << 16, 1 << 16};
                 },
                 "'batch_norm1.out'"},
        Breakage{"value_shape", false,
                 [](Graph& g) {
                   g.values[3].shape = {4, 8};
                 },
                 "'clamp2'"},
        Breakage{"tensor_missing", false, [](Graph& g) { g.tensors.erase("conv0.weight"); }, "'conv0.weight'"},
        Breakage{"node_output_shape", false, [](Graph& g) { std::get<Conv>(g.nodes[0].op).stride[0] = 2; }, "'conv0'"}),
    [](const auto& example) { return std::string(example.param.what); });

INSTANTIATE_TEST_SUITE_P(
    Tensors, VerifyRefuses,
    testing::Values(
        Breakage{"dtype_unknown", false, [](Graph& g) { g.tensors["conv0.bias"].dtype = static_cast<DType>(9); },
                 "'conv0.bias'"},
        Breakage{"dtype_u8", false,
                 [](Graph& g) { g.tensors["extra"] = {.dtype = DType::u8, .shape = {0}, .bytes = {}, .scales = {}}; },
                 "'extra'"},
        Breakage{"bytes_missing", false, [](Graph& g) { g.tensors["conv0.bias"].bytes.pop_back(); }, "'conv0.bias'"},
        Breakage{"no_data", false, [](Graph& g) { g.tensors["conv0.bias"].bytes.clear(); }, "'conv0.bias'"},
        Breakage{"shape_overflow", false,
                 [](Graph& g) {
                   g.tensors["conv0.bias"].shape = {std::int64_t{1} << 62, 4};
                 },
                 "'conv0.bias'"},
        Breakage{"byte_overflow", false, [](Graph& g) { g.tensors["conv0.bias"].shape = {std::int64_t{1} << 62}; },
                 "'conv0.bias'"},
        Breakage{"negative_size", false, [](Graph& g) { g.tensors["conv0.bias"].shape = {-4}; }, "'conv0.bias'"},
        Breakage{"rank", false, [](Graph& g) { g.tensors["conv0.bias"].shape.assign(9, 1); }, "'conv0.bias'"},
        Breakage{"scales_on_float", false, [](Graph& g) { g.tensors["conv0.bias"].scales = {1.0F}; }, "'conv0.bias'"},
        Breakage{"scale_count", true, [](Graph& g) { g.tensors["conv1.weight"].scales.pop_back(); }, "'conv1.weight'"},
        Breakage{"scale_none", true, [](Graph& g) { g.tensors["conv1.weight"].scales.clear(); }, "'conv1.weight'"},
        Breakage{"scale_zero", true, [](Graph& g) { g.tensors["conv1.weight"].scales[1] = 0.0F; }, "'conv1.weight'"},
        Breakage{"scale_nan", true,
                 [](Graph& g) { g.tensors["conv1.weight"].scales[1] = std::numeric_limits<float>::quiet_NaN(); },
                 "'conv1.weight'"},
        Breakage{"scale_negative", true, [](Graph& g) { g.tensors["conv1.weight"].scales[1] = -1.0F; },
                 "'conv1.weight'"},
        Breakage{"bits_low", true, [](Graph& g) { g.tensors["conv1.weight"].bits = 1; }, "'conv1.weight'"},
        Breakage{"bits_high", true, [](Graph& g) { g.tensors["conv1.weight"].bits = 9; }, "'conv1.weight'"},
        Breakage{"code_beyond_bits", true, [](Graph& g) { g.tensors["conv1.weight"].bits = 3; }, "'conv1.weight'"},
        Breakage{"code_minus_128", true, [](Graph& g) { elements<std::int8_t>(g.tensors["conv1.weight"])[7] = -128; },
                 "'conv1.weight'"},
        Breakage{"bias_float", true, [](Graph& g) { g.tensors["conv1.bias"].dtype = DType::f32; }, "'conv1'"},
        Breakage{"weight_float", true,
                 [](Graph& g) {
                   g.tensors["linear4.weight"] = make_tensor<float>(DType::f32, {2, 4}, std::vector<float>(8, 1.0F));
                 },
                 "'linear4'"},
        Breakage{"integers_in_float_conv", false, [](Graph& g) { g.tensors["conv0.weight"].dtype = DType::i32; },
                 "'conv0'"},
        Breakage{"statistics_dtype", false, [](Graph& g) { g.tensors["batch_norm1.running_mean"].dtype = DType::i32; },
                 "'batch_norm1'"},
        Breakage{"accumulator", true,
                 [](Graph& g) { elements<std::int32_t>(g.tensors["conv1.bias"])[2] = 2147483647 - 12 * 5 * 255 + 1; },
                 "'conv1' (conv): output channel 2"},
        Breakage{"accumulator_most_negative", true,
                 [](Graph& g) {
                   elements<std::int32_t>(g.tensors["conv1.bias"])[3] = std::numeric_limits<std::int32_t>::min();
                 },
                 "'conv1' (conv): output channel 3"}),
    [](const auto& example) { return std::string(example.param.what); });

INSTANTIATE_TEST_SUITE_P(
    Codes, VerifyRefuses,
    testing::Values(
        Breakage{"scale_subnormal", true, [](Graph& g) { qparams(g, 1).scale = 0x1p-140F; }, "'quantize0.out'"},
        Breakage{"scale_infinite", true, [](Graph& g) { qparams(g, 1).scale = infinity; }, "'quantize0.out'"},
        Breakage{"scale_reciprocal", true, [](Graph& g) { qparams(g, 1).scale = 3.0e38F; }, "'quantize0.out'"},
        Breakage{"zero_point_below", true, [](Graph& g) { qparams(g, 1).zero_point = -1; }, "'quantize0.out'"},
        Breakage{"zero_point_above", true, [](Graph& g) { qparams(g, 1).highest = 99; }, "'quantize0.out'"},
        Breakage{"code_above_255", true, [](Graph& g) { qparams(g, 1).highest = 256; }, "'quantize0.out'"},
        Breakage{"code_below_0", true, [](Graph& g) { qparams(g, 1).lowest = -1; }, "'quantize0.out'"},
        Breakage{
            "codes_reversed", true,
            [](Graph& g) { g.values[1].qparams = QParams{.scale = 1.0F, .zero_point = 5, .lowest = 5, .highest = 5}; },
            "'quantize0.out'"},
        Breakage{"input_of_codes", true, [](Graph& g) { g.values[0].qparams = g.values[1].qparams; }, "'x'"},
        Breakage{"output_of_codes", true, [](Graph& g) { g.values[5].qparams = g.values[1].qparams; }, "'linear4.out'"},
        Breakage{"product_of_scales", true,
                 [](Graph& g) {
                   qparams(g, 1).scale = 1.0e-30F;
                   g.tensors["conv1.weight"].scales[0] = 1.0e-20F;
                 },
                 "'conv1'"},
        Breakage{"multiplier_overflow", true,
                 [](Graph& g) {
                   qparams(g, 1).scale = 1.0e30F;
                   qparams(g, 2).scale = 1.0e-30F;
                 },
                 "'conv1'"},
        Breakage{"mean_multiplier_overflow", true,
                 [](Graph& g) {
                   qparams(g, 3).scale = 1.0e-38F * 2;
                   qparams(g, 2).scale = 1.0e3F;
                 },
                 "'global_mean2'"},
        Breakage{"mul_multiplier_overflow", true,
                 [](Graph& g) {
                   qparams(g, 6).scale = 2.0e-38F;
                   qparams(g, 4).scale = 1.0e5F;
                 },
                 "'mul5'"},
        Breakage{"float_activation_of_codes", true, [](Graph& g) { g.values[4].qparams.reset(); }, "'activation3'"},
        Breakage{"float_mean_of_codes", true, [](Graph& g) { g.values[3].qparams.reset(); }, "'global_mean2'"},
        Breakage{"float_residual", true, [](Graph& g) { g.nodes[1].inputs[1] = g.inputs[0]; }, "'conv1'"},
        Breakage{"float_into_codes", false, [](Graph& g) { g.values[1].qparams = QParams{}; }, "'conv0'"},
        Breakage{"clamp_into_codes", false, [](Graph& g) { g.values[3].qparams = QParams{}; }, "'clamp2'"},
        Breakage{"batch_norm_into_codes", false, [](Graph& g) { g.values[2].qparams = QParams{}; }, "'batch_norm1'"},
        Breakage{"quantize_to_float", true, [](Graph& g) { g.values[1].qparams.reset(); }, "'quantize0'"},
        Breakage{"dequantize_of_float", true,
                 [](Graph& g) {
                   g.nodes[6].inputs[0] = g.nodes[4].output;
                   g.values[7].shape = {2};
                 },
                 "'dequantize6'"},
        Breakage{"quantize_of_codes", true, [](Graph& g) { g.nodes[3].op = Quantize{}; }, "'activation3'"},
        Breakage{"softmax_of_codes", true, [](Graph& g) { g.nodes[3].op = Softmax{}; }, "'activation3'"},
        Breakage{"dropout_of_codes", true, [](Graph& g) { g.nodes[3].op = Dropout{}; }, "'activation3'"},
        Breakage{"reshape_changes_parameters", true,
                 [](Graph& g) {
                   g.nodes[3].op = Reshape{.shape = {4}};
                   qparams(g, 4).zero_point = 3;
                 },
                 "'activation3'"}),
    [](const auto& example) { return std::string(example.param.what); });

TEST(Verify, AllowsTheLargestAccumulatorThatFits) {
  Graph graph = integer_graph();
  elements<std::int32_t>(graph.tensors["conv1.bias"])[2] = 2147483647 - 12 * 5 * 255;
  EXPECT_NO_THROW(verify(graph));
}

TEST(Verify, CountsHowManyCodesAMeanSums) {
  Graph graph;
  const std::int64_t most = 2147483647 / 255;
  for (const std::int64_t size : {most, most + 1}) {
    graph = {};
    const QParams q{};
    graph.inputs = {add_value(graph, "x", {1, size})};
    add_value(graph, "codes", {1, size}, q);
    add_value(graph, "mean", {1}, q);
    add_value(graph, "y", {1});
    graph.nodes = {{.op = Quantize{}, .name = "q", .inputs = {0}, .tensors = {}, .output = 1},
                   {.op = GlobalMean{}, .name = "mean", .inputs = {1}, .tensors = {}, .output = 2},
                   {.op = Dequantize{}, .name = "d", .inputs = {2}, .tensors = {}, .output = 3}};
    graph.outputs = {3};
    if (size == most)
      EXPECT_NO_THROW(verify(graph));
    else
      expect_refused(graph, "'mean'");
  }
}

TEST(Verify, NetworksInTrainingNeedNoData) {
  Graph graph = float_graph();
  for (auto& [name, tensor] : graph.tensors) tensor.bytes.clear();
  EXPECT_NO_THROW(verify(graph, {.tensors_have_data = false}));
  expect_refused(graph, "bytes");
}

TEST(Verify, AcceptsNamesInAnyScript) {
  Graph graph = float_graph();
  graph.nodes[0].name = "ação.卷积.🙂";
  EXPECT_NO_THROW(verify(graph));
}

// Structural damage to graphs of every op: whatever the graph, it is refused, and by our error.
TEST(VerifyProperty, DamagedRandomGraphsAreRefused) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = seed % 2 == 0 ? test::random_float_graph(seed) : test::random_integer_graph(seed);
    test::Draws draws(seed);
    const auto index = [&](std::size_t size) {
      return static_cast<std::size_t>(draws.integer(0, static_cast<std::int64_t>(size) - 1));
    };
    Graph damaged = graph;
    damaged.nodes[index(graph.nodes.size())].inputs[0] = static_cast<ValueId>(graph.values.size());
    EXPECT_THROW(verify(damaged), Error);

    damaged = graph;
    const std::size_t node = index(graph.nodes.size());
    damaged.nodes[node].inputs[0] = damaged.nodes[node].output;
    EXPECT_THROW(verify(damaged), Error) << "a cycle";

    damaged = graph;
    Shape& shape = damaged.values[damaged.nodes[index(graph.nodes.size())].output].shape;
    shape.back() += 1;
    EXPECT_THROW(verify(damaged), Error) << "a wrong shape";

    damaged = graph;
    damaged.nodes.erase(damaged.nodes.begin() + static_cast<std::ptrdiff_t>(index(graph.nodes.size())));
    EXPECT_THROW(verify(damaged), Error) << "a missing node";

    damaged = graph;
    if (damaged.tensors.empty()) continue;
    auto tensor = damaged.tensors.begin();
    std::advance(tensor, static_cast<std::ptrdiff_t>(index(graph.tensors.size())));
    tensor->second.bytes.emplace_back();
    expect_refused(damaged, tensor->first);
  }
}

// Arbitrary changes of one attribute never crash: the graph is refused by our error or is still valid.
TEST(VerifyProperty, HostileAttributesNeverEscape) {
  const std::vector<std::int64_t> hostile = {-1,
                                             0,
                                             1,
                                             7,
                                             std::int64_t{1} << 31,
                                             std::int64_t{1} << 40,
                                             std::numeric_limits<std::int64_t>::max(),
                                             std::numeric_limits<std::int64_t>::min()};
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const Graph graph = seed % 2 == 0 ? test::random_float_graph(seed) : test::random_integer_graph(seed);
    test::Draws draws(seed);
    const auto number = [&] { return hostile[static_cast<std::size_t>(draws.integer(0, 7))]; };
    for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
      Graph damaged = graph;
      std::visit(
          [&](auto& op) {
            if constexpr (requires { op.groups; })
              if (draws.chance(0.3)) op.groups = number();
            if constexpr (requires { op.axis; }) op.axis = number();
            if constexpr (requires { op.output_size; }) op.output_size[0] = number();
            if constexpr (requires { op.shape; }) op.shape.back() = number();
            const auto damage = [&](auto& list) {
              if (draws.chance(0.4)) list[0] = number();
              if (draws.chance(0.1)) list.push_back(number());
            };
            if constexpr (requires { op.kernel; }) damage(op.kernel);
            if constexpr (requires { op.stride; }) damage(op.stride);
            if constexpr (requires { op.pads_begin; }) damage(op.pads_begin);
            if constexpr (requires { op.pads_end; }) damage(op.pads_end);
            if constexpr (requires { op.dilation; }) damage(op.dilation);
          },
          damaged.nodes[node].op);
      try {
        verify(damaged);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::graph);
      }
    }
  }
}

}  // namespace
}  // namespace podaq
