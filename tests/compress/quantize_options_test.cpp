#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "compress/conversion.h"
#include "compress/network_builder.h"
#include "compress/training_loop.h"
#include "podaq/compress/compressor.h"
#include "podaq/core/error.h"
#include "podaq/format/file.h"
#include "support/temporary_folder.h"

namespace podaq {
namespace {

using test::NetworkBuilder;

// A residual block with a depthwise layer and concatenation in front of a classifier: every kind of quantizer.
std::shared_ptr<GraphModule> network() {
  NetworkBuilder net;
  const ValueId x = net.input("input", {2, 12});
  const ValueId first = net.relu(net.batch_norm(net.conv(x, "first", 6, 3, false), "norm1"), "relu1");
  const ValueId depthwise = net.relu(net.batch_norm(net.conv(first, "depthwise", 6, 3, false, 6), "norm2"), "relu2");
  const ValueId branch = net.batch_norm(net.conv(depthwise, "branch", 6, 1), "norm3");
  const ValueId sum = net.relu(net.apply(Add{}, "sum", {branch, first}), "relu3");
  const ValueId joined = net.apply(Concat{.axis = 0}, "joined", {sum, first});
  const ValueId mean = net.apply(GlobalMean{}, "mean", {joined});
  return net.build({net.linear(mean, "last", 3)});
}

struct Variant {
  std::string name;
  QuantizeRecipe recipe;
};

std::vector<Variant> variants() {
  std::vector<Variant> all = {
      {"plain", {}},
      {"min_max", {.observer = MinMaxObserver{}}},
      {"percentile", {.observer = PercentileObserver{.percentile = 99}}},
      {"least_squares", {.activation_bits = 5, .observer = LeastSquaresObserver{}}},
      {"least_divergence", {.observer = LeastDivergenceObserver{}}},
      {"fixed_ranges",
       {.fixed_ranges = {{.values = "input", .range = {.minimum = -2, .maximum = 2}},
                         {.values = "relu*", .range = {.minimum = 0, .maximum = 3}}}}},
      {"weight_per_tensor", {.weight_granularity = WeightGranularity::tensor}},
      {"weight_least_squares", {.weight_bits = 3, .weight_scale = WeightScale::least_squares}},
      {"weight_least_squares_per_tensor",
       {.weight_bits = 4, .weight_scale = WeightScale::least_squares, .weight_granularity = WeightGranularity::tensor}},
      {"scales_of_four_mantissa_bits", {.weight_bits = 4, .scale_mantissa_bits = 4}},
      {"scales_of_powers_of_two_per_tensor",
       {.weight_scale = WeightScale::least_squares,
        .weight_granularity = WeightGranularity::tensor,
        .scale_mantissa_bits = 0}},
      {"weight_learned", {.weight_bits = 4, .weight_scale = WeightScale::learned}},
      {"weight_learned_per_tensor",
       {.weight_bits = 4, .weight_scale = WeightScale::learned, .weight_granularity = WeightGranularity::tensor}},
      {"activation_learned", {.activation_scale = ActivationScale::learned}},
      {"all_learned",
       {.weight_bits = 3,
        .activation_bits = 4,
        .weight_scale = WeightScale::learned,
        .activation_scale = ActivationScale::learned,
        .step_learning_rate = 0.5}},
      {"bits_by_layer",
       {.weight_bits_by_layer = {{.names = "*", .bits = 2}, {.names = "first", .bits = 8}},
        .activation_bits_by_layer = {{.names = "branch", .bits = 4}, {.names = "last", .bits = 6}}}},
      {"bits_by_value",
       {.activation_bits_by_value = {{.names = "relu2.out", .bits = 4}, {.names = "input", .bits = 7}}}},
      {"float_layers", {.float_layers = {"depthwise"}}},
      {"first_and_last_float", {.float_layers = {"first", "last"}}},
      {"float_values", {.float_values = {"joined.out"}}},
      {"quantized_values", {.float_layers = {"last"}, .quantized_values = {"mean.out", "relu3.out"}}},
      {"quantized_output", {.quantized_values = {"last.out"}}},
  };
  for (int bits = 2; bits <= 8; ++bits)
    all.push_back({"bits" + std::to_string(bits), {.weight_bits = bits, .activation_bits = std::max(bits, 4)}});
  return all;
}

class QuantizeOptions : public testing::TestWithParam<Variant> {};

TEST_P(QuantizeOptions, AgreesWithinOneStepPerLayerAndComesBackFromFileAndCheckpoint) {
  const QuantizeRecipe& recipe = GetParam().recipe;
  const auto model = network();
  Compressor compressor = test::quantized(model, recipe);
  const Graph graph = test::expect_agreement(model, compressor);
  EXPECT_EQ(encode(decode(encode(graph))), encode(graph));

  const test::TemporaryFolder folder;
  torch::optim::SGD still_there(model->parameters(), 1e-4);
  compressor.attach(still_there, {.steps_per_epoch = 4});
  compressor.save_checkpoint(folder.path() / "checkpoint");
  const auto other = network();
  torch::optim::SGD optimizer(other->parameters(), 0.5);
  Compressor resumed(other, {.epochs = {.quantize = 1, .freeze_batch_norm = 1}, .quantize = recipe});
  resumed.attach(optimizer, {.steps_per_epoch = 4});
  resumed.load_checkpoint(folder.path() / "checkpoint");
  EXPECT_EQ(resumed.convert(), graph);
}

TEST_P(QuantizeOptions, ComesBackFromToml) {
  const Recipe recipe{.epochs = {.quantize = 1}, .quantize = GetParam().recipe};
  EXPECT_EQ(to_toml(Recipe::parse(to_toml(recipe))), to_toml(recipe));
}

INSTANTIATE_TEST_SUITE_P(All, QuantizeOptions, testing::ValuesIn(variants()),
                         [](const auto& variant) { return variant.param.name; });

const Node& node_named(const Graph& graph, const std::string& name) {
  const auto found = std::ranges::find(graph.nodes, name, &Node::name);
  if (found == graph.nodes.end()) throw std::logic_error("no node " + name);
  return *found;
}

QParams qparams_read_by(const Graph& graph, const std::string& layer) {
  return graph.values.at(node_named(graph, layer).inputs.at(0)).qparams.value();
}

TEST(QuantizeOptionsInTheFile, AreWhatTheRecipeAsksFor) {
  const auto graph_of = [](const QuantizeRecipe& recipe) { return test::quantized(network(), recipe).convert(); };
  const Graph bits = graph_of({.activation_bits_by_layer = {{.names = "branch", .bits = 4}}});
  EXPECT_EQ(qparams_read_by(bits, "branch").highest, 15);
  EXPECT_EQ(qparams_read_by(bits, "last").highest, 255);
  EXPECT_EQ(qparams_read_by(bits, "depthwise").highest, 255) << "last reads the same values, through the concat";

  const Graph fixed = graph_of({.fixed_ranges = {{.values = "input", .range = {.minimum = -1, .maximum = 1}}}});
  EXPECT_FLOAT_EQ(qparams_read_by(fixed, "first").scale, 2.0F / 255);
  EXPECT_NEAR(qparams_read_by(fixed, "first").zero_point, 127.5, 0.5);

  const Graph mixed = graph_of({.float_layers = {"depthwise"}});
  EXPECT_EQ(tensor_at(mixed, node_named(mixed, "depthwise").tensors.at(0)).dtype, DType::f32);
  EXPECT_EQ(tensor_at(mixed, node_named(mixed, "branch").tensors.at(0)).dtype, DType::s8);

  const Graph tensor = graph_of({.weight_granularity = WeightGranularity::tensor});
  EXPECT_EQ(tensor_at(tensor, node_named(tensor, "first").tensors.at(0)).scales.size(), 1U);

  const Graph values = graph_of({.float_values = {"joined.out"}});
  EXPECT_FALSE(values.values.at(node_named(values, "joined").output).qparams.has_value());
  EXPECT_TRUE(graph_of({}).values.at(node_named(graph_of({}), "joined").output).qparams.has_value());
}

// In a small file the scales weigh as much as a layer.
TEST(ScaleMantissaBits, RoundScalesUpAndLeaveTheFileAByteForEach) {
  const auto quantized_graph = [](int bits) {
    torch::manual_seed(3);
    NetworkBuilder net;
    const ValueId x = net.conv(net.input("input", {2, 16}), "first", 200, 3);
    const auto model = net.build({net.linear(net.apply(GlobalMean{}, "mean", {net.relu(x, "relu")}), "last", 3)});
    return test::quantized(model, {.weight_bits = 4, .scale_mantissa_bits = bits}).convert();
  };
  const Graph exact = quantized_graph(23);
  const Graph rounded = quantized_graph(4);
  for (const WeightedLayer& layer : weighted_layers(rounded)) {
    const std::vector<float>& scales = tensor_at(rounded, layer.weight).scales;
    const std::vector<float>& before = tensor_at(exact, layer.weight).scales;
    ASSERT_EQ(scales.size(), before.size());
    for (std::size_t c = 0; c < scales.size(); ++c) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(scales[c]) & 0x7FFFFU, 0U);
      EXPECT_NEAR(scales[c] / before[c], 1 + 1.0 / 32, 1.0 / 16);
    }
  }
  const auto saved = std::ssize(encode(exact)) - std::ssize(encode(rounded));
  EXPECT_GE(saved, 203 * 2);
}

TEST(LearnedScales, MoveAwayFromWhereTheyBegan) {
  const auto scales_of = [](double learning_rate) {
    const Graph graph = test::quantized(network(), {.weight_bits = 3,
                                                    .weight_scale = WeightScale::learned,
                                                    .activation_scale = ActivationScale::learned,
                                                    .step_learning_rate = learning_rate})
                            .convert();
    std::vector<float> scales = tensor_at(graph, node_named(graph, "last").tensors.at(0)).scales;
    scales.push_back(qparams_read_by(graph, "first").scale);
    return scales;
  };
  const std::vector<float> still = scales_of(0);
  const std::vector<float> moved = scales_of(0.1);
  ASSERT_EQ(still.size(), moved.size());
  for (std::size_t i = 0; i < still.size(); ++i) {
    EXPECT_GT(moved[i], 0);
    EXPECT_NE(moved[i], still[i]) << i;
  }
}

// Steps of 8 bits are small and the gradients of clipped weights large: one batch threw a step out of its channel's
// range.
TEST(LearnedScales, OfEightBitsStayWithTheirWeights) {
  const auto model = test::small_classifier();
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-3));
  Compressor compressor(
      model, {.epochs = {.quantize = 1},
              .quantize = QuantizeRecipe{.weight_scale = WeightScale::learned, .observer = MinMaxObserver{}}});
  constexpr std::int64_t steps = 200;
  compressor.attach(optimizer, {.steps_per_epoch = steps});
  model->train();
  torch::manual_seed(12);
  for (std::int64_t step = 0; step < steps; ++step) {
    test::train_step(*model, optimizer, test::make_batch(16, 2, 16, 4));
    compressor.step();
  }
  compressor.end_epoch();
  const Graph graph = compressor.convert(test::with_all_channels);
  for (const WeightedLayer& layer : weighted_layers(graph)) {
    const Tensor& weight = tensor_at(graph, layer.weight);
    const auto codes = elements<std::int8_t>(weight);
    const std::size_t channels = weight.scales.size();
    const std::size_t row = codes.size() / channels;
    for (std::size_t c = 0; c < channels; ++c) {
      const auto channel = codes.subspan(c * row, row);
      const auto size_of = [](int code) { return std::abs(code); };
      EXPECT_GE(size_of(std::ranges::max(channel, {}, size_of)), 80)
          << layer.weight << ": the step outgrew channel " << c;
      EXPECT_LE(std::ranges::count(channel, 127, size_of), 2) << layer.weight << ": the step cuts off channel " << c;
    }
  }
}

TEST(PlacementText, ShowsValuesBitsAndOverrides) {
  const auto model = network();
  const Compressor compressor(model,
                              {.quantize = QuantizeRecipe{.activation_bits_by_value = {{.names = "input", .bits = 5}},
                                                          .float_values = {"joined.out"}}});
  const std::string text = compressor.placement_text();
  EXPECT_NE(text.find("input*"), std::string::npos) << text;
  EXPECT_NE(text.find(" 5 "), std::string::npos) << text;
  EXPECT_EQ(text.find("joined.out"), std::string::npos) << text;
}

}  // namespace
}  // namespace podaq
