// The depthwise convolution gives the bits of the reference for every window, channel count and operand.

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "podaq/core/text.h"
#include "podaq/graph/verify.h"
#include "runtime/avx512.h"
#include "runtime/guarded_buffer.h"
#include "runtime/kernels/registry.h"
#include "runtime/layers.h"
#include "runtime/support.h"

namespace podaq::test {
namespace {

constexpr QParams output_qparams{.scale = 0.05F, .zero_point = 101, .lowest = 3, .highest = 250};

std::string conv_kernel(const Model& model) {
  for (const KernelChoice& choice : model.kernels())
    if (choice.op == "conv") return choice.kernel;
  return "";
}

// A window of its own along each dimension; along the first alone where the input has one.
struct Window {
  std::int64_t kernel[2] = {3, 3}, stride[2] = {1, 1}, pad_begin[2] = {0, 0}, pad_end[2] = {0, 0}, dilation[2] = {1, 1};
};

Window random_window(Draws& draws) {
  Window window;
  for (int i = 0; i < 2; ++i) {
    window.kernel[i] = draws.integer(1, draws.chance(0.2) ? 9 : 5);
    window.stride[i] = draws.integer(1, 3);
    window.pad_begin[i] = draws.integer(0, 3);
    window.pad_end[i] = draws.integer(0, 3);
    window.dilation[i] = draws.integer(1, 2);
  }
  return window;
}

CodeLayer depthwise_layer(const Shape& input, const Window& window, Draws& draws) {
  const std::size_t spatial = input.size() - 1;
  const auto list = [&](const std::int64_t(&values)[2]) { return std::vector<std::int64_t>(values, values + spatial); };
  Shape weight_shape = {input[0], 1};
  for (std::size_t i = 0; i < spatial; ++i) weight_shape.push_back(window.kernel[i]);
  CodeLayer layer{.input = input,
                  .op = Conv{.stride = list(window.stride),
                             .pads_begin = list(window.pad_begin),
                             .pads_end = list(window.pad_end),
                             .dilation = list(window.dilation),
                             .groups = input[0],
                             .clamp = draws.chance(0.3) ? std::optional(Clamp{.minimum = 0.0F}) : std::nullopt},
                  .weight_shape = weight_shape,
                  .weights = std::vector<std::int8_t>(static_cast<std::size_t>(element_count(weight_shape))),
                  .bias = std::vector<std::int32_t>(static_cast<std::size_t>(input[0])),
                  .weight_scales = {},
                  .input_qparams = {.scale = 0.016F,
                                    .zero_point = static_cast<std::int32_t>(draws.integer(0, 255)),
                                    .lowest = 0,
                                    .highest = 255},
                  .output_qparams = output_qparams};
  for (auto& code : layer.weights) code = static_cast<std::int8_t>(draws.integer(-127, 127));
  for (auto& code : layer.bias) code = static_cast<std::int32_t>(draws.integer(-2000, 2000));
  for (std::int64_t i = 0; i < input[0]; ++i) layer.weight_scales.push_back(draws.real(0.001F, 0.01F));
  if (draws.chance(0.3)) layer.output_qparams.reset();
  if (draws.chance(0.3)) layer.added_qparams = QParams{.scale = 0.03F, .zero_point = 77, .lowest = 0, .highest = 255};
  return layer;
}

bool fits(const Shape& input, const Window& window) {
  for (std::size_t i = 0; i + 1 < input.size(); ++i)
    if (input[i + 1] + window.pad_begin[i] + window.pad_end[i] < (window.kernel[i] - 1) * window.dilation[i] + 1)
      return false;
  return true;
}

void expect_reference_bits(const CodeLayer& layer, Draws& draws, const std::string& where) {
  const Graph graph = graph_of(layer);
  const Model reference(graph, {.read = {}, .isa = Isa::reference});
  const auto batch = static_cast<std::size_t>(draws.integer(1, 3));
  const auto inputs = random_inputs(reference, batch, draws);
  const std::vector<float> expected = run_model(reference, inputs, batch, 1);
  for (const Isa isa : runnable_isas()) {
    if (isa < Isa::avx512) continue;
    const Model model(graph, {.read = {}, .isa = isa, .sparse = SparseKernels::never});
    ASSERT_EQ(conv_kernel(model), "avx512_depthwise_conv") << where;
    EXPECT_TRUE(same_bits(run_model(model, inputs, batch, batch), expected)) << where << " " << name_of(isa);
  }
}

TEST(DepthwiseProperty, PlanesGiveTheReferenceBits) {
  if (!has_avx512()) GTEST_SKIP() << "needs AVX-512 with VNNI";
  Draws draws(1);
  for (const std::int64_t channels : {2, 3, 4, 5, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 200})
    for (int i = 0; i < 12; ++i) {
      const Shape input = {channels, draws.integer(1, 20), draws.integer(1, draws.chance(0.3) ? 90 : 20)};
      const Window window = random_window(draws);
      if (!fits(input, window)) continue;
      expect_reference_bits(
          depthwise_layer(input, window, draws), draws,
          concat(channels, " channels, draw ", i, ", kernel ", window.kernel[0], "x", window.kernel[1]));
      if (HasFailure()) return;
    }
}

TEST(DepthwiseProperty, LinesGiveTheReferenceBits) {
  if (!has_avx512()) GTEST_SKIP() << "needs AVX-512 with VNNI";
  Draws draws(2);
  for (const std::int64_t channels : {2, 3, 7, 16, 33, 63, 64, 65, 129})
    for (int i = 0; i < 15; ++i) {
      const Shape input = {channels, draws.integer(1, 150)};
      const Window window = random_window(draws);
      if (!fits(input, window)) continue;
      expect_reference_bits(depthwise_layer(input, window, draws), draws, concat(channels, " channels, draw ", i));
      if (HasFailure()) return;
    }
}

// 3x3 with a border of one, the usual layer, with every width of the last strip.
TEST(DepthwiseProperty, EveryWidthGivesTheReferenceBits) {
  if (!has_avx512()) GTEST_SKIP() << "needs AVX-512 with VNNI";
  Draws draws(3);
  for (std::int64_t width = 1; width <= 70; ++width)
    for (const std::int64_t stride : {1, 2}) {
      const Window window{.stride = {stride, stride}, .pad_begin = {1, 1}, .pad_end = {1, 1}};
      for (const std::int64_t channels : {16, 32, 70})
        expect_reference_bits(depthwise_layer({channels, 5, width}, window, draws), draws,
                              concat(channels, " channels, width ", width));
      if (HasFailure()) return;
    }
}

TEST(Depthwise, SeveralOutputsAChannelAreLeftToOthers) {
  if (!has_avx512()) GTEST_SKIP() << "needs AVX-512 with VNNI";
  Draws draws(4);
  CodeLayer layer = depthwise_layer({16, 8, 8}, {}, draws);
  layer.added_qparams.reset();
  layer.weight_shape[0] = 32;
  layer.weights.resize(2 * layer.weights.size(), 3);
  layer.bias.resize(32);
  layer.weight_scales.resize(32, 0.001F);
  const Graph graph = graph_of(layer);
  const Model model(graph, {.read = {}, .isa = Isa::avx512, .sparse = SparseKernels::never});
  EXPECT_EQ(conv_kernel(model), "avx512_quad_conv");
  const Model reference(graph, {.read = {}, .isa = Isa::reference});
  const auto inputs = random_inputs(reference, 2, draws);
  EXPECT_TRUE(same_bits(run_model(model, inputs, 2, 2), run_model(reference, inputs, 2, 1)));
}

// The arena puts other values right behind a kernel's operands.
TEST(Depthwise, StaysWithinItsMemory) {
  if (!has_avx512()) GTEST_SKIP() << "needs AVX-512 with VNNI";
  Draws draws(5);
  for (const std::int64_t channels : {2, 15, 63, 64, 65, 129})
    for (const std::int64_t pad : {0, 1}) {
      const Window window{.pad_begin = {pad, pad}, .pad_end = {pad, pad}};
      CodeLayer layer = depthwise_layer({channels, 4, 9}, window, draws);
      layer.output_qparams = output_qparams;
      layer.added_qparams.reset();
      const Graph graph = graph_of(layer);
      const std::vector<runtime_detail::Layout> layouts(graph.values.size(), runtime_detail::Layout::channels_last);
      const runtime_detail::NodeView view{.graph = graph, .node = graph.nodes[1], .layouts = layouts};
      constexpr std::size_t batch = 2;
      std::vector<std::uint8_t> codes(batch * runtime_detail::sample_size(view.input().shape));
      for (auto& code : codes) code = static_cast<std::uint8_t>(draws.integer(0, 255));
      const std::size_t output_bytes = batch * runtime_detail::sample_size(view.output().shape);
      const auto run = [&](const runtime_detail::Kernel& kernel, GuardedBuffer::Guard guard) {
        const auto room = [&](std::size_t bytes) { return (bytes + runtime_detail::over_read_bytes + 63) / 64 * 64; };
        const runtime_detail::Packed packed = kernel.prepare(view);
        const GuardedBuffer input(room(codes.size()), guard);
        std::memcpy(input.bytes().data(), codes.data(), codes.size());
        const GuardedBuffer output(room(output_bytes), guard);
        const GuardedBuffer scratch(room(kernel.scratch_bytes == nullptr ? 0 : kernel.scratch_bytes(packed)), guard);
        const std::vector<const std::byte*> operands = {input.bytes().data()};
        kernel.run(
            packed,
            {.inputs = operands, .output = output.bytes().data(), .scratch = scratch.bytes().data(), .batch = batch});
        return std::vector(output.bytes().begin(), output.bytes().begin() + static_cast<std::ptrdiff_t>(output_bytes));
      };
      const auto expected = run(runtime_detail::reference::integer_conv, GuardedBuffer::Guard::after);
      for (const auto guard : {GuardedBuffer::Guard::before, GuardedBuffer::Guard::after})
        EXPECT_EQ(run(runtime_detail::avx512::depthwise_conv, guard), expected) << channels << " channels";
    }
}

}  // namespace
}  // namespace podaq::test
