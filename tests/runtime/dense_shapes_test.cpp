// The dense kernels on codes against the reference, over shapes that are no multiple of anything.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "podaq/core/text.h"
#include "podaq/graph/verify.h"
#include "runtime/layers.h"
#include "runtime/support.h"

namespace podaq::test {
namespace {

// A network of one conv or linear on random codes, with a residual, a max pooling or float outputs where asked for.
struct Shaped {
  Shape input;
  std::int64_t outputs = 1, kernel = 1;  ///< kernel 0: a linear.
  ConvShape conv{};
  bool adds = false, gives_floats = false;
  std::int64_t pool = 1;  ///< Kernel and stride of the max pooling behind.
};

struct ShapedBuilder {
  Draws& draws;
  Graph graph{};

  ValueId append(const Op& op, std::vector<ValueId> inputs, std::optional<QParams> qparams,
                 std::vector<std::string> tensors = {}) {
    Node node{.op = op,
              .name = concat("node", graph.nodes.size()),
              .inputs = std::move(inputs),
              .tensors = std::move(tensors)};
    node.output = add_value(graph, node.name + ".output", infer_shape(graph, node), qparams);
    const ValueId output = node.output;
    graph.nodes.push_back(std::move(node));
    return output;
  }

  std::string add_weight(const Shape& shape) {
    std::vector<std::int8_t> codes(static_cast<std::size_t>(element_count(shape)));
    const std::size_t window = codes.size() / static_cast<std::size_t>(shape[0]);
    std::int64_t largest = 127;
    for (std::size_t i = 0; i < codes.size(); ++i) {
      // Small weights take other ways through some kernels than large ones, 16 outputs at a time.
      if (i % (16 * window) == 0) largest = draws.chance(0.4) ? 127 : draws.integer(1, 110);
      codes[i] = static_cast<std::int8_t>(draws.integer(-largest, largest));
    }
    Tensor weight = make_tensor<std::int8_t>(DType::s8, shape, codes);
    for (std::int64_t i = 0; i < shape[0]; ++i) weight.scales.push_back(draws.real(0.0005F, 0.002F));
    graph.tensors["weight"] = std::move(weight);
    return "weight";
  }

  std::string add_bias(std::int64_t outputs) {
    std::vector<std::int32_t> codes(static_cast<std::size_t>(outputs));
    for (auto& code : codes) code = static_cast<std::int32_t>(draws.integer(-20000, 20000));
    graph.tensors["bias"] = make_tensor<std::int32_t>(DType::i32, {outputs}, codes);
    return "bias";
  }
};

Graph graph_of(const Shaped& shaped, Draws& draws) {
  const QParams input_codes{.scale = 0.016F, .zero_point = 117, .lowest = 0, .highest = 255};
  const QParams output_codes{.scale = 0.05F, .zero_point = 101, .lowest = 3, .highest = 250};
  ShapedBuilder builder{.draws = draws};
  Graph& graph = builder.graph;
  graph.inputs = {add_value(graph, "input", shaped.input)};
  const ValueId codes = builder.append(Quantize{}, {graph.inputs[0]}, input_codes);
  Op op = Linear{};
  Shape weight = {shaped.outputs, shaped.input[0]};
  if (shaped.kernel != 0) {
    Conv conv = conv_of(shaped.conv);
    if (draws.chance(0.5)) conv.clamp = Clamp{.minimum = 0.0F};
    op = conv;
    weight[1] /= shaped.conv.groups;
    weight.insert(weight.end(), shaped.conv.spatial, shaped.kernel);
  }
  const std::vector<std::string> tensors = {builder.add_weight(weight), builder.add_bias(shaped.outputs)};
  std::vector<ValueId> inputs = {codes};
  if (shaped.adds) {
    const Node alone{.op = op, .name = "alone", .inputs = {codes}, .tensors = tensors};
    graph.inputs.push_back(add_value(graph, "added", infer_shape(graph, alone)));
    inputs.push_back(builder.append(Quantize{}, {graph.inputs[1]}, output_codes));
    if (auto* conv = std::get_if<Conv>(&op)) conv->adds_input = true;
    if (auto* linear = std::get_if<Linear>(&op)) linear->adds_input = true;
  }
  ValueId result =
      builder.append(op, inputs, shaped.gives_floats ? std::nullopt : std::optional(output_codes), tensors);
  const Shape& plane = graph.values[result].shape;
  if (shaped.pool > 1 && std::all_of(plane.begin() + 1, plane.end(), [&](auto size) { return size >= shaped.pool; })) {
    const std::vector<std::int64_t> size(shaped.conv.spatial, shaped.pool);
    const std::vector<std::int64_t> zeros(shaped.conv.spatial, 0);
    const std::vector<std::int64_t> ones(shaped.conv.spatial, 1);
    result = builder.append(
        MaxPool{.kernel = size, .stride = size, .pads_begin = zeros, .pads_end = zeros, .dilation = ones}, {result},
        output_codes);
  }
  graph.outputs = {shaped.gives_floats ? result : builder.append(Dequantize{}, {result}, std::nullopt)};
  return graph;
}

void expect_reference_bits(const Shaped& shaped, std::uint64_t seed) {
  Draws draws(seed);
  const Graph graph = graph_of(shaped, draws);
  const Model reference(graph, {.read = {}, .isa = Isa::reference});
  for (const std::size_t batch : {std::size_t{0}, std::size_t{1}, std::size_t{3}, std::size_t{64}}) {
    if (batch == 64 && (seed % 4 != 0 || element_count(shaped.input) > 2000)) continue;
    const auto inputs = random_inputs(reference, batch, draws);
    const std::vector<float> expected = run_model(reference, inputs, batch, 1);
    for (const Isa isa : runnable_isas()) {
      const Model model(graph, {.read = {}, .isa = isa});
      EXPECT_TRUE(same_bits(run_model(model, inputs, batch, std::max<std::size_t>(batch, 1)), expected))
          << "seed " << seed << " batch " << batch << " input " << shaped.input[0] << "x" << shaped.input.back()
          << " outputs " << shaped.outputs << " kernel " << shaped.kernel << " stride " << shaped.conv.stride << " pad "
          << shaped.conv.pad << " dilation " << shaped.conv.dilation << " groups " << shaped.conv.groups << " pool "
          << shaped.pool << (shaped.adds ? " adds" : "") << (shaped.gives_floats ? " floats" : "") << "\n"
          << kernel_names(model);
    }
  }
}

constexpr std::uint64_t draws_per_family = 150;

TEST(DenseShapesProperty, LinearsOfAnySizeGiveTheReferenceBits) {
  for (std::uint64_t seed = 0; seed < draws_per_family && !HasFailure(); ++seed) {
    Draws draws(seed);
    expect_reference_bits({.input = {draws.integer(1, 300)},
                           .outputs = draws.integer(1, 150),
                           .kernel = 0,
                           .adds = draws.chance(0.3),
                           .gives_floats = draws.chance(0.3)},
                          seed);
  }
}

TEST(DenseShapesProperty, ConvolutionsOfOneDimensionGiveTheReferenceBits) {
  for (std::uint64_t seed = 0; seed < draws_per_family && !HasFailure(); ++seed) {
    Draws draws(1000 + seed);
    const bool pools = draws.chance(0.4);
    Shaped shaped{.input = {draws.integer(1, 70), draws.integer(13, 200)},
                  .outputs = draws.integer(1, 140),
                  .kernel = draws.integer(1, 5),
                  .conv = {.spatial = 1,
                           .stride = draws.integer(1, 3),
                           .pad = draws.integer(0, 3),
                           .dilation = draws.integer(1, 3)},
                  .adds = !pools && draws.chance(0.3),
                  .gives_floats = !pools && draws.chance(0.2),
                  .pool = pools ? draws.integer(2, 4) : 1};
    expect_reference_bits(shaped, seed);
  }
}

TEST(DenseShapesProperty, ConvolutionsOfTwoDimensionsGiveTheReferenceBits) {
  for (std::uint64_t seed = 0; seed < draws_per_family && !HasFailure(); ++seed) {
    Draws draws(2000 + seed);
    const bool pools = draws.chance(0.4);
    const std::int64_t size = draws.integer(7, 21);
    Shaped shaped{.input = {draws.integer(1, 70), size, size + draws.integer(0, 20)},
                  .outputs = draws.integer(1, 140),
                  .kernel = draws.integer(1, 3),
                  .conv = {.spatial = 2,
                           .stride = draws.integer(1, 3),
                           .pad = draws.integer(0, 2),
                           .dilation = draws.integer(1, 2)},
                  .adds = !pools && draws.chance(0.3),
                  .gives_floats = !pools && draws.chance(0.2),
                  .pool = pools ? draws.integer(2, 3) : 1};
    expect_reference_bits(shaped, seed);
  }
}

TEST(DenseShapesProperty, GroupedConvolutionsGiveTheReferenceBits) {
  for (std::uint64_t seed = 0; seed < draws_per_family && !HasFailure(); ++seed) {
    Draws draws(3000 + seed);
    const std::int64_t groups = draws.integer(2, 24);
    const auto spatial = static_cast<std::size_t>(draws.integer(1, 2));
    Shape input = {groups * draws.integer(1, 4)};
    input.insert(input.end(), spatial, draws.integer(5, 18));
    expect_reference_bits({.input = input,
                           .outputs = groups * draws.integer(1, 5),
                           .kernel = draws.integer(1, 3),
                           .conv = {.spatial = spatial,
                                    .stride = draws.integer(1, 2),
                                    .pad = draws.integer(0, 2),
                                    .dilation = draws.integer(1, 2),
                                    .groups = groups},
                           .adds = draws.chance(0.3),
                           .gives_floats = draws.chance(0.2)},
                          seed);
  }
}

// Layers as deep as VGG16's last, whose small planes share tiles with the next samples.
TEST(DenseShapesProperty, DeepConvolutionsOfSmallPlanesGiveTheReferenceBits) {
  for (const std::int64_t size : {1, 2, 4})
    for (const std::int64_t pool : {1, 2}) {
      if (pool > size) continue;
      expect_reference_bits(
          {.input = {130, size, size}, .outputs = 200, .kernel = 3, .conv = {.spatial = 2, .pad = 1}, .pool = pool},
          static_cast<std::uint64_t>(4 * size + 8 * pool));
    }
}

}  // namespace
}  // namespace podaq::test
