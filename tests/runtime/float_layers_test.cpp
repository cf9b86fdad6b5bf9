// The vector kernels of float layers: results bit for bit those of the reference, NaN included.

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "podaq/core/text.h"
#include "podaq/graph/verify.h"
#include "runtime/layers.h"
#include "runtime/support.h"

namespace podaq::test {
namespace {

std::vector<float> random_floats(std::size_t count, Draws& draws) {
  std::vector<float> floats(count);
  for (float& x : floats) x = static_cast<float>(draws.integer(-1000, 1000)) * 0.0071F;
  return floats;
}

void expect_reference_bits(const Graph& graph, const std::string& kernel, const std::string& what, bool with_nan) {
  const Model reference(graph, {.read = {}, .isa = Isa::reference});
  for (const Isa isa : runnable_isas()) {
    const Model model(graph, {.read = {}, .isa = isa});
    if (isa >= Isa::avx512) {
      EXPECT_EQ(model.kernels()[0].kernel, kernel) << what;
    }
    for (const std::size_t batch : {std::size_t{1}, std::size_t{3}}) {
      Draws draws(batch);
      std::vector<std::vector<float>> inputs = {random_floats(batch * model.inputs()[0].size(), draws)};
      for (std::size_t i = 0; with_nan && i < inputs[0].size(); i += 5)
        inputs[0][i] = i % 2 == 0 ? std::numeric_limits<float>::quiet_NaN() : -0.0F;
      EXPECT_TRUE(same_bits(run_model(model, inputs, batch, batch), run_model(reference, inputs, batch, batch)))
          << what << " on " << name_of(isa) << ", batch " << batch;
    }
  }
}

TEST(FloatLayersProperty, ConvolutionsOfShortRowsGiveTheReferenceBits) {
  Draws draws(3);
  for (const std::int64_t width : {1, 2, 5, 7, 10, 17, 20})
    for (const std::int64_t groups : {1, 2})
      for (const std::int64_t stride : {1, 2})
        for (const std::int64_t outputs : {16, 23, 70}) {
          const std::int64_t channels = groups * draws.integer(1, 5);
          const std::int64_t kernel = width < 3 ? 1 : 3;
          const Conv op = conv_of({.spatial = 2, .stride = stride, .pad = kernel / 2, .groups = groups});
          FloatLayer layer{.input = {channels, 4, width * stride},
                           .op = op,
                           .weight_shape = {groups * outputs, channels / groups, kernel, kernel},
                           .weights = {},
                           .bias = {}};
          layer.weights = random_floats(static_cast<std::size_t>(element_count(layer.weight_shape)), draws);
          layer.bias = random_floats(static_cast<std::size_t>(groups * outputs), draws);
          expect_reference_bits(graph_of(layer), "avx512_float_window_conv",
                                concat("width ", width, " groups ", groups, " stride ", stride, " outputs ", outputs),
                                false);
        }
}

// Borders of several rows, some windows wholly within them. (Rows above the input have no address: clang's
// UndefinedBehaviorSanitizer sees a pointer to them even where it is not read.)
TEST(FloatLayersProperty, ConvolutionsOfLongRowsGiveTheReferenceBits) {
  Draws draws(4);
  for (const std::int64_t width : {33, 64, 101})
    for (const std::int64_t groups : {1, 2})
      for (const std::int64_t stride : {1, 2, 3})
        for (const std::int64_t pad : {0, 1, 4})
          for (const std::int64_t dilation : {1, 2}) {
            const std::int64_t channels = groups * draws.integer(1, 3);
            const std::int64_t outputs = groups * draws.integer(1, 7);
            FloatLayer layer{
                .input = {channels, 5, width * stride},
                .op = conv_of({.spatial = 2, .stride = stride, .pad = pad, .dilation = dilation, .groups = groups}),
                .weight_shape = {outputs, channels / groups, 3, 3},
                .weights = {},
                .bias = {}};
            layer.weights = random_floats(static_cast<std::size_t>(element_count(layer.weight_shape)), draws);
            layer.bias = random_floats(static_cast<std::size_t>(outputs), draws);
            expect_reference_bits(
                graph_of(layer), "avx512_float_conv",
                concat("width ", width, " groups ", groups, " stride ", stride, " pad ", pad, " dilation ", dilation),
                false);
          }
}

Graph pool_graph(const Shape& input, const MaxPool& pool) {
  Graph graph;
  graph.inputs = {add_value(graph, "input", input)};
  Node node{.op = pool, .name = "pool", .inputs = graph.inputs, .tensors = {}};
  node.output = add_value(graph, "output", infer_shape(graph, node));
  graph.nodes = {node};
  graph.outputs = {node.output};
  return graph;
}

TEST(FloatLayersProperty, MaxPoolingsGiveTheReferenceBits) {
  for (const std::int64_t size : {5, 16, 33, 40, 70})
    for (const std::int64_t kernel : {1, 2, 3, 5})
      for (const std::int64_t stride : {1, 2, 3})
        for (const std::int64_t dilation : {1, 2})
          for (const bool with_nan : {false, true}) {
            const std::int64_t pad = kernel / 2;
            if ((kernel - 1) * dilation + 1 > size + 2 * pad) continue;
            const std::string what = concat("size ", size, " kernel ", kernel, " stride ", stride, " dilation ",
                                            dilation, with_nan ? " with NaN" : "");
            const MaxPool line{
                .kernel = {kernel}, .stride = {stride}, .pads_begin = {pad}, .pads_end = {pad}, .dilation = {dilation}};
            expect_reference_bits(pool_graph({3, size}, line), "avx512_float_max_pool", what, with_nan);
            const MaxPool plane{.kernel = {2, kernel},
                                .stride = {stride, stride},
                                .pads_begin = {1, pad},
                                .pads_end = {0, pad},
                                .dilation = {1, dilation}};
            expect_reference_bits(pool_graph({2, 6, size}, plane), "avx512_float_max_pool", what, with_nan);
          }
}

}  // namespace
}  // namespace podaq::test
