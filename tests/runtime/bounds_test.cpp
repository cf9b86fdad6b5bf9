// C38: XNNPACK #4190. Kernels stay within the caller's buffers, whatever the sizes.

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/guarded_buffer.h"
#include "runtime/layers.h"
#include "runtime/support.h"

namespace podaq::test {
namespace {

constexpr std::int64_t odd_channels[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 17, 31, 33, 63, 65};
constexpr QParams input_qparams{.scale = 0.02F, .zero_point = 100, .lowest = 0, .highest = 255};
constexpr QParams output_qparams{.scale = 0.05F, .zero_point = 90, .lowest = 0, .highest = 255};

template <typename Element>
std::vector<Element> random_elements(std::int64_t count, Draws& draws) {
  std::vector<Element> elements(static_cast<std::size_t>(count));
  for (Element& x : elements) x = static_cast<Element>(draws.integer(-100, 100));
  return elements;
}

std::vector<Graph> layers(std::int64_t channels, std::int64_t length, Draws& draws) {
  const std::int64_t outputs = channels % 16 + 1;
  std::vector<Graph> graphs;
  for (const bool gives_codes : {true, false})
    graphs.push_back(graph_of(CodeLayer{.input = {channels, length},
                                        .op = conv_of({.pad = 1}),
                                        .weight_shape = {outputs, channels, 3},
                                        .weights = random_elements<std::int8_t>(outputs * channels * 3, draws),
                                        .bias = random_elements<std::int32_t>(outputs, draws),
                                        .weight_scales = {0.001F},
                                        .input_qparams = input_qparams,
                                        .output_qparams = gives_codes ? std::optional(output_qparams) : std::nullopt}));
  graphs.push_back(graph_of(FloatLayer{.input = {channels, length},
                                       .op = conv_of({.stride = 2, .pad = 1}),
                                       .weight_shape = {outputs, channels, 3},
                                       .weights = random_elements<float>(outputs * channels * 3, draws),
                                       .bias = random_elements<float>(outputs, draws)}));
  graphs.push_back(graph_of(CodeLayer{.input = {channels},
                                      .op = Linear{},
                                      .weight_shape = {length, channels},
                                      .weights = random_elements<std::int8_t>(length * channels, draws),
                                      .bias = {},
                                      .weight_scales = {0.001F},
                                      .input_qparams = input_qparams,
                                      .output_qparams = std::nullopt}));
  graphs.push_back(graph_of(FloatLayer{.input = {channels},
                                       .op = Linear{},
                                       .weight_shape = {length, channels},
                                       .weights = random_elements<float>(length * channels, draws),
                                       .bias = random_elements<float>(length, draws)}));
  return graphs;
}

std::vector<float> run_guarded(Runner& runner, const std::vector<float>& input, std::size_t batch,
                               GuardedBuffer::Guard guard) {
  const GuardedBuffer input_buffer(input.size() * sizeof(float), guard);
  std::copy(input.begin(), input.end(), input_buffer.floats().begin());
  const GuardedBuffer output_buffer(batch * runner.model().outputs()[0].size() * sizeof(float), guard);
  runner.run(input_buffer.floats(), output_buffer.floats());
  return {output_buffer.floats().begin(), output_buffer.floats().end()};
}

// The graph as read from a file that lies between guard pages.
Graph decoded_guarded(const Graph& graph, GuardedBuffer::Guard guard) {
  const std::vector<std::byte> file = encode(graph, {.compression_level = 1});
  const GuardedBuffer buffer(file.size(), guard);
  std::copy(file.begin(), file.end(), buffer.bytes().begin());
  return decode(buffer.bytes());
}

TEST(BoundsProperty, BuffersAtTheEdgeOfAPageAreNeverLeft) {
  constexpr std::size_t batch = 3;
  for (const std::int64_t channels : odd_channels)
    for (const std::int64_t length : {1, 3, 8, 15, 17, 33, 63, 65}) {
      Draws draws(static_cast<std::uint64_t>(channels * 100 + length));
      for (const Graph& drawn : layers(channels, length, draws)) {
        const auto file_guard = draws.chance(0.5) ? GuardedBuffer::Guard::before : GuardedBuffer::Guard::after;
        const Graph graph = decoded_guarded(drawn, file_guard);
        const Model reference(graph, {.read = {}, .isa = Isa::reference});
        const auto inputs = random_inputs(reference, batch, draws);
        const std::vector<float> expected = run_model(reference, inputs, batch, batch);
        for (const Isa isa : runnable_isas()) {
          Runner runner(Model(graph, {.read = {}, .isa = isa}), {.max_batch = 2});
          for (const auto guard : {GuardedBuffer::Guard::before, GuardedBuffer::Guard::after})
            ASSERT_EQ(run_guarded(runner, inputs[0], batch, guard), expected)
                << channels << " channels, length " << length << ", " << name_of(isa);
        }
      }
    }
}

}  // namespace
}  // namespace podaq::test
