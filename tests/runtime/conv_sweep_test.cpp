#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "runtime/layers.h"
#include "runtime/support.h"

namespace podaq::test {
namespace {

constexpr std::size_t batch = 2;

struct Sweep {
  std::size_t spatial;
  std::int64_t inputs, outputs, groups;
};

std::string name_of_sweep(const ::testing::TestParamInfo<Sweep>& info) {
  const Sweep& s = info.param;
  return std::to_string(s.spatial) + "d_" + std::to_string(s.inputs) + "_to_" + std::to_string(s.outputs) + "_groups_" +
         std::to_string(s.groups);
}

class ConvSweepProperty : public ::testing::TestWithParam<Sweep> {};

std::vector<ConvShape> conv_shapes(const Sweep& sweep) {
  std::vector<ConvShape> shapes;
  for (const std::int64_t stride : {1, 2, 3})
    for (const std::int64_t pad : {0, 1, 3})
      for (const std::int64_t dilation : {1, 2})
        shapes.push_back(
            {.spatial = sweep.spatial, .stride = stride, .pad = pad, .dilation = dilation, .groups = sweep.groups});
  return shapes;
}

void expect_same(const Graph& graph, Draws& draws, const std::string& where) {
  const Model reference(graph, {.read = {}, .isa = Isa::reference});
  const auto inputs = random_inputs(reference, batch, draws);
  const std::vector<float> expected = run_model(reference, inputs, batch, 1);
  for (const Isa isa : runnable_isas()) {
    const Model model(graph, {.read = {}, .isa = isa});
    EXPECT_TRUE(same_bits(run_model(model, inputs, batch, batch), expected)) << where << " " << kernel_names(model);
  }
}

Shape shape_with(std::vector<std::int64_t> first, std::size_t spatial, std::int64_t size) {
  first.insert(first.end(), spatial, size);
  return first;
}

TEST_P(ConvSweepProperty, CodesAndFloatsGiveTheReferenceBits) {
  const Sweep& sweep = GetParam();
  Draws draws(static_cast<std::uint64_t>(sweep.inputs * 1000 + sweep.outputs));
  for (const ConvShape& conv : conv_shapes(sweep))
    for (const std::int64_t kernel : {1, 3, 4}) {
      const std::int64_t size = kernel == 3 ? 12 : 7;
      if (size + 2 * conv.pad < (kernel - 1) * conv.dilation + 1) continue;
      const Shape weight_shape = shape_with({sweep.outputs, sweep.inputs / sweep.groups}, conv.spatial, kernel);
      const auto count = static_cast<std::size_t>(element_count(weight_shape));
      CodeLayer codes{.input = shape_with({sweep.inputs}, conv.spatial, size),
                      .op = conv_of(conv),
                      .weight_shape = weight_shape,
                      .weights = std::vector<std::int8_t>(count),
                      .bias = std::vector<std::int32_t>(static_cast<std::size_t>(sweep.outputs)),
                      .weight_scales = {0.001F},
                      .input_qparams = {.scale = 0.02F, .zero_point = 91, .lowest = 0, .highest = 255},
                      .output_qparams = QParams{.scale = 0.03F, .zero_point = 120, .lowest = 0, .highest = 255}};
      for (auto& w : codes.weights) w = static_cast<std::int8_t>(draws.integer(-127, 127));
      for (auto& b : codes.bias) b = static_cast<std::int32_t>(draws.integer(-9000, 9000));
      FloatLayer floats{.input = codes.input,
                        .op = codes.op,
                        .weight_shape = weight_shape,
                        .weights = std::vector<float>(count),
                        .bias = std::vector<float>(codes.bias.size())};
      for (float& w : floats.weights) w = draws.real(-1.0F, 1.0F);
      for (float& b : floats.bias) b = draws.real(-1.0F, 1.0F);
      const std::string where = "kernel " + std::to_string(kernel) + " size " + std::to_string(size) + " stride " +
                                std::to_string(conv.stride) + " pad " + std::to_string(conv.pad) + " dilation " +
                                std::to_string(conv.dilation);
      expect_same(graph_of(codes), draws, where);
      codes.output_qparams.reset();
      expect_same(graph_of(codes), draws, where + " to floats");
      expect_same(graph_of(floats), draws, where);
    }
}

INSTANTIATE_TEST_SUITE_P(Shapes, ConvSweepProperty,
                         ::testing::Values(Sweep{1, 1, 1, 1}, Sweep{1, 2, 64, 1}, Sweep{1, 5, 17, 1},
                                           Sweep{1, 64, 70, 1}, Sweep{1, 6, 6, 2}, Sweep{1, 12, 12, 4},
                                           Sweep{1, 32, 34, 2}, Sweep{1, 7, 7, 7}, Sweep{1, 16, 32, 16},
                                           Sweep{1, 48, 48, 48}, Sweep{1, 131, 131, 131}, Sweep{2, 3, 33, 1},
                                           Sweep{2, 4, 16, 1}, Sweep{2, 8, 40, 2}, Sweep{2, 20, 20, 20},
                                           Sweep{2, 4, 8, 4}),
                         name_of_sweep);

// A weight that is not finite poisons what it touches and nothing else: padding is skipped, not multiplied.
TEST(FloatConv, WeightsThatAreNotFiniteActAsInTheReference) {
  FloatLayer layer{.input = {2, 6},
                   .op = conv_of({.pad = 1}),
                   .weight_shape = {3, 2, 3},
                   .weights = std::vector<float>(18, 0.5F),
                   .bias = {}};
  layer.weights[0] = INFINITY;
  layer.weights[9] = NAN;
  Draws draws(4);
  expect_same(graph_of(layer), draws, "infinite weights");
  const std::vector<float> got = run_model(Model(graph_of(layer)), {std::vector<float>(12, 1.0F)}, 1, 1);
  EXPECT_EQ(got[0], 2.0F);  // the infinite tap lies in the padding
  EXPECT_EQ(got[1], INFINITY);
  EXPECT_EQ(got[17], 2.0F);
}

}  // namespace
}  // namespace podaq::test
