// Reported faults of other libraries' int8 kernels, each with the right value, on every instruction set.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/layers.h"
#include "runtime/support.h"

namespace podaq::test {
namespace {

constexpr QParams unit{.scale = 1.0F, .zero_point = 0, .lowest = 0, .highest = 255};

// The layer's outputs for one sample, the same on every instruction set, dense and sparse.
std::vector<float> run_everywhere(const CodeLayer& layer, const std::vector<float>& input) {
  const Graph graph = graph_of(layer);
  std::vector<float> expected;
  for (const Isa isa : runnable_isas())
    for (const SparseKernels sparse : {SparseKernels::automatic, SparseKernels::never, SparseKernels::always}) {
      const Model model(graph, {.read = {}, .isa = isa, .sparse = sparse});
      const std::vector<float> got = run_model(model, {input}, 1, 1);
      if (expected.empty()) expected = got;
      EXPECT_EQ(got, expected) << name_of(isa) << " " << kernel_names(model);
    }
  return expected;
}

// pytorch #44939, #76390: pairs of products that do not fit 16 bits.
TEST(ExactnessGolden, SumsOfTwoProductsDoNotSaturateAt16Bits) {
  const CodeLayer linear{.input = {2},
                         .op = Linear{},
                         .weight_shape = {2, 2},
                         .weights = {71, 107, 113, 113},
                         .bias = {},
                         .input_qparams = unit,
                         .output_qparams = std::nullopt};
  EXPECT_EQ(run_everywhere(linear, {211, 171}), (std::vector<float>{33278, 43166}));
  EXPECT_EQ(run_everywhere(linear, {255, 255}), (std::vector<float>{45390, 57630}));
}

// A linear of two outputs whose weights are +-127, and the codes 255: the largest sums there are.
CodeLayer largest_linear(std::int64_t inputs) {
  const auto count = static_cast<std::size_t>(inputs);
  CodeLayer linear{.input = {inputs},
                   .op = Linear{},
                   .weight_shape = {2, inputs},
                   .weights = std::vector<std::int8_t>(2 * count, 127),
                   .bias = {},
                   .input_qparams = unit,
                   .output_qparams = std::nullopt};
  std::fill(linear.weights.begin() + inputs, linear.weights.end(), static_cast<std::int8_t>(-127));
  return linear;
}

// oneDNN #3435, #3914: sums beyond 2^24 lose bits if they pass through float before they are complete.
TEST(ExactnessGolden, LargeSumsAreExactUntilTheOneRoundingToFloat) {
  constexpr std::int64_t inputs = 66310;  // 127 * 255 * 66310 = 2147449350, just below 2^31
  CodeLayer linear = largest_linear(inputs);
  linear.bias = {-200, 200};
  const std::vector<float> codes(static_cast<std::size_t>(inputs), 255.0F);
  EXPECT_EQ(run_everywhere(linear, codes), (std::vector<float>{2147449150.0F, -2147449150.0F}));
}

TEST(ExactnessGolden, LargeSumsThatCancelLeaveTheirSmallRest) {
  constexpr std::int64_t inputs = 60001;  // one more of one sign than of the other
  CodeLayer linear = largest_linear(inputs);
  std::fill_n(linear.weights.begin(), inputs / 2, static_cast<std::int8_t>(-127));
  std::fill_n(linear.weights.begin() + inputs, inputs / 2, static_cast<std::int8_t>(127));
  linear.bias = {-127 * 255 + 3, 127 * 255 + 5};
  linear.output_qparams = unit;
  const std::vector<float> codes(static_cast<std::size_t>(inputs), 255.0F);
  EXPECT_EQ(run_everywhere(linear, codes), (std::vector<float>{3.0F, 5.0F}));
}

// oneDNN #375, #645: weights of 1 are not halved away.
TEST(ExactnessGolden, UnitWeightsCopyTheInput) {
  for (const std::int64_t channels : {1, 3, 16, 17, 64, 65}) {
    CodeLayer conv{.input = {channels, 9},
                   .op = conv_of({}),
                   .weight_shape = {channels, channels, 1},
                   .weights = std::vector<std::int8_t>(static_cast<std::size_t>(channels * channels), 0),
                   .bias = {},
                   .input_qparams = unit,
                   .output_qparams = unit};
    for (std::int64_t c = 0; c < channels; ++c) conv.weights[static_cast<std::size_t>(c * channels + c)] = 1;
    std::vector<float> input(static_cast<std::size_t>(channels * 9));
    for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>(i * 37 % 256);
    EXPECT_EQ(run_everywhere(conv, input), input);
  }
}

// tensorflow #25087, LiteRT #7441, onnxruntime #25045: exact halves round once, to even, on both sides of zero.
TEST(ExactnessGolden, ExactTiesRoundToEven) {
  CodeLayer linear{.input = {1},
                   .op = Linear{},
                   .weight_shape = {8, 1},
                   .weights = {1, 3, 5, 7, -1, -3, -5, -7},
                   .bias = {},
                   .weight_scales = {0.5F},
                   .input_qparams = unit,
                   .output_qparams = QParams{.scale = 1.0F, .zero_point = 100, .lowest = 0, .highest = 255}};
  EXPECT_EQ(run_everywhere(linear, {1}), (std::vector<float>{0, 2, 2, 4, 0, -2, -2, -4}));
}

// oneDNN #5080: what lies beyond the border counts as the number 0, whose code is the zero point.
TEST(ExactnessGolden, PaddingIsTheZeroPoint) {
  const CodeLayer conv{.input = {1, 4},
                       .op = conv_of({.pad = 2}),
                       .weight_shape = {1, 1, 3},
                       .weights = {1, 10, 100},
                       .bias = {},
                       .input_qparams = {.scale = 1.0F, .zero_point = 77, .lowest = 0, .highest = 255},
                       .output_qparams = std::nullopt};
  EXPECT_EQ(run_everywhere(conv, {1, 2, 3, 4}), (std::vector<float>{100, 210, 321, 432, 43, 4}));
}

// C44: openxla/xla #49123, a wrong last channel with two groups.
TEST(ExactnessGolden, GroupsReadTheirOwnChannels) {
  CodeLayer conv{.input = {4, 1},
                 .op = conv_of({.groups = 2}),
                 .weight_shape = {4, 2, 1},
                 .weights = {-3, -2, -1, 0, 1, 2, 3, 4},
                 .bias = {},
                 .input_qparams = {.scale = 1.0F, .zero_point = 128, .lowest = 0, .highest = 255},
                 .output_qparams = std::nullopt};
  EXPECT_EQ(run_everywhere(conv, {-2, -1, 0, 1}), (std::vector<float>{8, 2, 2, 4}));
  conv.op = conv_of({.spatial = 2, .groups = 2});
  conv.input = {4, 3, 3};
  conv.weight_shape = {4, 2, 1, 1};
  std::vector<float> planes;
  std::vector<float> expected;
  for (const float x : {-2.0F, -1.0F, 0.0F, 1.0F}) planes.insert(planes.end(), 9, x);
  for (const float y : {8.0F, 2.0F, 2.0F, 4.0F}) expected.insert(expected.end(), 9, y);
  EXPECT_EQ(run_everywhere(conv, planes), expected);
}

TEST(ExactnessGolden, EveryNumberOfGroupsGivesTheSameBitsEverywhere) {
  for (const std::int64_t channels : {4, 6, 12})
    for (const std::int64_t groups : {1, 2, 4}) {
      if (channels % groups != 0) continue;
      CodeLayer conv{.input = {channels, 3, 3},
                     .op = conv_of({.spatial = 2, .groups = groups}),
                     .weight_shape = {channels, channels / groups, 1, 1},
                     .weights = {},
                     .bias = {},
                     .input_qparams = {.scale = 1.0F, .zero_point = 128, .lowest = 0, .highest = 255},
                     .output_qparams = std::nullopt};
      const std::int64_t inputs = channels / groups;
      for (std::int64_t i = 0; i < channels * inputs; ++i) conv.weights.push_back(static_cast<std::int8_t>(i % 7 - 3));
      std::vector<float> planes;
      for (std::int64_t channel = 0; channel < channels; ++channel)
        planes.insert(planes.end(), 9, static_cast<float>(channel % 5 - 2));
      std::vector<float> expected;
      for (std::int64_t channel = 0; channel < channels; ++channel) {
        float sum = 0.0F;
        for (std::int64_t i = 0; i < inputs; ++i)
          sum += static_cast<float>(conv.weights[static_cast<std::size_t>(channel * inputs + i)]) *
                 planes[static_cast<std::size_t>((channel / inputs * inputs + i) * 9)];
        expected.insert(expected.end(), 9, sum);
      }
      EXPECT_EQ(run_everywhere(conv, planes), expected) << channels << " channels, " << groups << " groups";
    }
}

// C23: glow #1452, #5920: pooling between different parameters changes the codes.
TEST(ExactnessGolden, PoolingRequantizesWhereParametersDiffer) {
  Graph graph;
  const ValueId input = add_value(graph, "input", {1, 2});
  const ValueId codes = add_value(graph, "codes", {1, 2}, QParams{.scale = 0.1F, .zero_point = 10});
  const ValueId pooled = add_value(graph, "pooled", {1, 1}, QParams{.scale = 0.05F, .zero_point = 0});
  const ValueId output = add_value(graph, "output", {1, 1});
  graph.inputs = {input};
  graph.outputs = {output};
  graph.nodes = {{.op = Quantize{}, .name = "quantize", .inputs = {input}, .tensors = {}, .output = codes},
                 {.op = {}, .name = "pool", .inputs = {codes}, .tensors = {}, .output = pooled},
                 {.op = Dequantize{}, .name = "dequantize", .inputs = {pooled}, .tensors = {}, .output = output}};
  const auto expect_code = [&](const Op& op, int code) {
    graph.nodes[1].op = op;
    for (const Isa isa : runnable_isas()) {
      const auto got = run_model(Model(graph, {.read = {}, .isa = isa}), {{2.0F, 4.0F}}, 1, 1);
      EXPECT_EQ(got, std::vector<float>{static_cast<float>(code) * 0.05F}) << name_of(isa);
    }
  };
  expect_code(MaxPool{.kernel = {2}, .stride = {2}, .pads_begin = {0}, .pads_end = {0}, .dilation = {1}}, 80);
  expect_code(AdaptivePool{.kind = AdaptivePool::Kind::max, .output_size = {1}}, 80);
  expect_code(AvgPool{.kernel = {2}, .stride = {2}, .pads_begin = {0}, .pads_end = {0}}, 60);
  expect_code(AdaptivePool{.kind = AdaptivePool::Kind::mean, .output_size = {1}}, 60);
}

// What NaN and infinities become is defined: the zero point and the ends.
TEST(ExactnessGolden, NonFiniteInputsHaveCodes) {
  const CodeLayer linear{.input = {3},
                         .op = Linear{},
                         .weight_shape = {3, 3},
                         .weights = {1, 0, 0, 0, 1, 0, 0, 0, 1},
                         .bias = {},
                         .input_qparams = {.scale = 1.0F, .zero_point = 40, .lowest = 0, .highest = 255},
                         .output_qparams = std::nullopt};
  EXPECT_EQ(run_everywhere(linear, {NAN, INFINITY, -INFINITY}), (std::vector<float>{0, 215, -40}));
}

}  // namespace
}  // namespace podaq::test
