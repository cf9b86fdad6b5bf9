#include "support/random_ops.h"

#include <algorithm>
#include <utility>

namespace podaq::test {

namespace {

struct WindowDraw {
  std::int64_t kernel, stride, pad_begin, pad_end, dilation;
};

std::int64_t span_of(const WindowDraw& window) {
  return (window.kernel - 1) * window.dilation + 1;
}

WindowDraw random_window(Draws& draws, std::int64_t size, bool dilated) {
  WindowDraw window{.kernel = draws.integer(1, 5),
                    .stride = draws.integer(1, 3),
                    .pad_begin = 0,
                    .pad_end = 0,
                    .dilation = dilated && draws.chance(0.3) ? draws.integer(2, 3) : 1};
  while (span_of(window) > size) --window.kernel;
  if (draws.chance(0.6)) window.pad_begin = draws.integer(0, span_of(window) - 1);
  if (draws.chance(0.6)) window.pad_end = draws.integer(0, span_of(window) - 1);
  if (window.dilation > size) window.dilation = 1;
  return window;
}

WindowDraw shape_keeping_window(Draws& draws) {
  WindowDraw window{
      .kernel = draws.integer(1, 5), .stride = 1, .pad_begin = 0, .pad_end = 0, .dilation = draws.integer(1, 2)};
  window.pad_begin = (span_of(window) - 1) / 2;
  window.pad_end = span_of(window) - 1 - window.pad_begin;
  return window;
}

// A divisor of both channel counts.
std::int64_t random_groups(Draws& draws, std::int64_t channels) {
  if (draws.chance(0.6)) return 1;
  if (draws.chance(0.5)) return channels;
  const std::int64_t divisor = draws.integer(1, channels);
  return channels % divisor == 0 ? divisor : 1;
}

}  // namespace

std::optional<WeightedOp> random_conv(Draws& draws, const Shape& input, bool keeps_shape) {
  if (input.size() != 2 && input.size() != 3) return std::nullopt;
  Conv conv;
  conv.groups = random_groups(draws, input[0]);
  const std::int64_t multiple = std::max<std::int64_t>(1, 40 / conv.groups);
  const std::int64_t channels = keeps_shape ? input[0] : conv.groups * draws.integer(1, multiple);
  Shape weight = {channels, input[0] / conv.groups};
  for (std::size_t i = 1; i < input.size(); ++i) {
    const WindowDraw window = keeps_shape ? shape_keeping_window(draws) : random_window(draws, input[i], true);
    weight.push_back(window.kernel);
    conv.stride.push_back(window.stride);
    conv.pads_begin.push_back(window.pad_begin);
    conv.pads_end.push_back(window.pad_end);
    conv.dilation.push_back(window.dilation);
  }
  return WeightedOp{.op = std::move(conv), .weight = std::move(weight)};
}

WeightedOp random_linear(Draws& draws, const Shape& input, bool keeps_shape) {
  return {.op = Linear{}, .weight = {keeps_shape ? input.back() : draws.integer(1, 40), input.back()}};
}

Clamp random_clamp(Draws& draws) {
  switch (draws.integer(0, 3)) {
    case 0:
      return {.minimum = 0.0F, .maximum = 6.0F};
    case 1: {
      const float low = draws.real(-2.0F, 1.0F);
      return {.minimum = low, .maximum = low + draws.real(0.0F, 3.0F)};
    }
    default:
      return {.minimum = 0.0F};
  }
}

std::optional<Op> random_pool(Draws& draws, const Shape& input) {
  if (input.size() != 2 && input.size() != 3) return std::nullopt;
  const auto kind = draws.integer(0, 4);
  if (kind == 3) return GlobalMean{};
  if (kind == 4) return GlobalMax{};
  MaxPool max_pool;
  AvgPool avg_pool{.kernel = {}, .stride = {}, .pads_begin = {}, .pads_end = {}, .count_padding = draws.chance(0.5)};
  AdaptivePool adaptive{.kind = draws.chance(0.5) ? AdaptivePool::Kind::max : AdaptivePool::Kind::mean,
                        .output_size = {}};
  for (std::size_t i = 1; i < input.size(); ++i) {
    const WindowDraw window = random_window(draws, input[i], kind == 0);
    max_pool.kernel.push_back(window.kernel);
    max_pool.stride.push_back(window.stride);
    max_pool.pads_begin.push_back(window.pad_begin);
    max_pool.pads_end.push_back(window.pad_end);
    max_pool.dilation.push_back(window.dilation);
    avg_pool.kernel.push_back(window.kernel);
    avg_pool.stride.push_back(window.stride);
    avg_pool.pads_begin.push_back(window.pad_begin);
    avg_pool.pads_end.push_back(window.pad_end);
    adaptive.output_size.push_back(draws.integer(1, std::min<std::int64_t>(input[i] + 2, 9)));
  }
  if (kind == 0) return max_pool;
  if (kind == 1) return avg_pool;
  return adaptive;
}

Op random_activation(Draws& draws) {
  const auto kind = static_cast<ActivationKind>(draws.integer(0, static_cast<int>(ActivationKind::gelu_tanh)));
  return Activation{.kind = kind, .alpha = draws.chance(0.5) ? 0.01F : draws.real(0.1F, 1.5F)};
}

Reshape random_reshape(Draws& draws, const Shape& input) {
  const std::int64_t count = element_count(input);
  if (draws.chance(0.4)) return {.shape = {count}};
  const std::int64_t rows = draws.integer(1, std::min<std::int64_t>(count, 12));
  if (count % rows != 0) return {.shape = {1, count}};
  return {.shape = {rows, count / rows}};
}

Shape random_input_shape(Draws& draws) {
  switch (draws.integer(0, 4)) {
    case 0:
      return {draws.integer(1, 40)};
    case 1:
      return {draws.integer(1, 12), draws.integer(1, 13), draws.integer(1, 13)};
    case 2:
      return {draws.integer(1, 3), draws.integer(5, 13), draws.integer(5, 13)};
    default:
      return {draws.integer(1, 20), draws.integer(1, 70)};
  }
}

}  // namespace podaq::test
