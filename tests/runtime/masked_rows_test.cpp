// C40: libxsmm #782, kokkos-kernels PR #1220. Output channels without a weight give exactly their requantized bias,
// through a file, on every instruction set, dense and sparse.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "runtime/layers.h"
#include "runtime/support.h"

namespace podaq::test {
namespace {

constexpr QParams input_qparams{.scale = 0.1F, .zero_point = 128, .lowest = 0, .highest = 255};
constexpr QParams output_qparams{.scale = 0.5F, .zero_point = 20, .lowest = 0, .highest = 255};
constexpr std::size_t channels = 16;
constexpr float weight_scale = 0.25F;

// A layer of 16 output channels, the weights of those in `masked` 0, that of others `weight`.
CodeLayer masked_layer(const Op& op, const Shape& input, const Shape& weight_shape, const std::set<std::size_t>& masked,
                       std::int8_t weight) {
  const auto size = static_cast<std::size_t>(element_count(weight_shape));
  CodeLayer layer{.input = input,
                  .op = op,
                  .weight_shape = weight_shape,
                  .weights = std::vector<std::int8_t>(size, weight),
                  .bias = {},
                  .weight_scales = {weight_scale},
                  .input_qparams = input_qparams,
                  .output_qparams = output_qparams};
  const std::size_t columns = size / channels;
  for (std::size_t channel = 0; channel < channels; ++channel) {
    layer.bias.push_back(static_cast<std::int32_t>(channel) * 160 - 1000);
    if (masked.contains(channel))
      std::fill_n(layer.weights.begin() + static_cast<std::ptrdiff_t>(channel * columns), columns, std::int8_t{0});
  }
  return layer;
}

void expect_requantized_bias(const CodeLayer& layer, const std::set<std::size_t>& masked) {
  const Graph loaded = decode(encode(graph_of(layer)));
  Draws draws(9);
  for (const Isa isa : runnable_isas())
    for (const SparseKernels sparse : {SparseKernels::automatic, SparseKernels::never, SparseKernels::always})
      for (const std::size_t batch : {1U, 64U}) {
        const Model model(loaded, {.read = {}, .isa = isa, .sparse = sparse});
        const std::vector<float> got = run_model(model, random_inputs(model, batch, draws), batch, batch);
        const std::size_t positions = model.outputs()[0].size() / channels;
        for (std::size_t i = 0; i < got.size(); ++i) {
          const std::size_t channel = i / positions % channels;
          if (!masked.contains(channel)) continue;
          const float scale = input_qparams.scale * weight_scale / output_qparams.scale;
          const float steps = std::nearbyint(static_cast<float>(layer.bias[channel]) * scale);
          ASSERT_EQ(got[i], std::clamp(steps, -20.0F, 235.0F) * output_qparams.scale)
              << "channel " << channel << " " << name_of(isa) << " " << kernel_names(model);
        }
      }
}

void expect_requantized_bias_of_rows(const std::set<std::size_t>& masked, std::int8_t weight) {
  const Conv line = conv_of({.pad = 1});
  expect_requantized_bias(masked_layer(line, {5, 12}, {16, 5, 3}, masked, weight), masked);
  expect_requantized_bias(masked_layer(line, {5, 70}, {16, 5, 3}, masked, weight), masked);
  const Conv depthwise = conv_of({.spatial = 2, .pad = 1, .groups = 16});
  expect_requantized_bias(masked_layer(depthwise, {16, 5, 5}, {16, 1, 3, 3}, masked, weight), masked);
  expect_requantized_bias(masked_layer(Linear{}, {300}, {16, 300}, masked, weight), masked);
}

TEST(MaskedRowsGolden, SingleRows) {
  expect_requantized_bias_of_rows({0, 7, 15}, 3);
}

// The first and the last block of a 4x1 pattern.
TEST(MaskedRowsGolden, BlocksOfFourRows) {
  expect_requantized_bias_of_rows({0, 1, 2, 3, 12, 13, 14, 15}, 3);
}

TEST(MaskedRowsGolden, AllWeightsButOne) {
  std::set<std::size_t> masked;
  for (std::size_t channel = 0; channel < channels; ++channel) masked.insert(channel);
  for (CodeLayer layer : {masked_layer(conv_of({.pad = 1}), {5, 12}, {16, 5, 3}, masked, 3),
                          masked_layer(Linear{}, {300}, {16, 300}, masked, 3)}) {
    expect_requantized_bias(layer, masked);
    layer.weights[layer.weights.size() / channels * 3 + 4] = -7;
    std::set<std::size_t> others = masked;
    others.erase(3);
    expect_requantized_bias(layer, others);
  }
}

}  // namespace
}  // namespace podaq::test
