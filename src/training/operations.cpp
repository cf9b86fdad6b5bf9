#include "training/operations.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <variant>

#include "podaq/core/error.h"
#include "podaq/core/text.h"

namespace podaq::training_detail {

namespace {

using torch::indexing::Slice;
using Sizes = std::vector<std::int64_t>;

// Attributes of one spatial dimension as those of two: the value's {C, L} is lifted to {C, 1, L}.
Sizes lifted(const Sizes& attribute, std::int64_t neutral) {
  return attribute.size() == 1 ? Sizes{neutral, attribute[0]} : attribute;
}

// LibTorch's padding lists, last dimension first: {left, right, top, bottom}.
at::Tensor padded(const at::Tensor& input, const Sizes& begin, const Sizes& end, double value) {
  return at::constant_pad_nd(input, {begin[1], end[1], begin[0], end[0]}, value)
      .contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor run(const MaxPool& pool, const at::Tensor& input) {
  const Sizes begin = lifted(pool.pads_begin, 0);
  const Sizes end = lifted(pool.pads_end, 0);
  const Sizes kernel = lifted(pool.kernel, 1);
  const Sizes stride = lifted(pool.stride, 1);
  const Sizes dilation = lifted(pool.dilation, 1);
  const at::Tensor x = to_lifted(input);
  if (begin == end) return at::max_pool2d(x, kernel, stride, begin, dilation);
  constexpr double lowest = -std::numeric_limits<double>::infinity();
  return at::max_pool2d(padded(x, begin, end, lowest), kernel, stride, 0, dilation);
}

at::Tensor run(const AvgPool& pool, const at::Tensor& input) {
  const Sizes begin = lifted(pool.pads_begin, 0);
  const Sizes end = lifted(pool.pads_end, 0);
  const Sizes kernel = lifted(pool.kernel, 1);
  const Sizes stride = lifted(pool.stride, 1);
  const at::Tensor x = to_lifted(input);
  if (begin == end) return at::avg_pool2d(x, kernel, stride, begin, false, pool.count_padding);
  const at::Tensor mean = at::avg_pool2d(padded(x, begin, end, 0.0), kernel, stride);
  if (pool.count_padding) return mean;
  const at::Tensor inside = at::ones({1, 1, x.size(2), x.size(3)}, x.options());
  return mean / at::avg_pool2d(padded(inside, begin, end, 0.0), kernel, stride);
}

at::Tensor run(const AdaptivePool& pool, const at::Tensor& input) {
  const Sizes size = lifted(pool.output_size, 1);
  const at::Tensor x = to_lifted(input);
  return pool.kind == AdaptivePool::Kind::mean ? at::adaptive_avg_pool2d(x, size)
                                               : std::get<0>(at::adaptive_max_pool2d(x, size));
}

Sizes spatial_dimensions(const at::Tensor& input) {
  Sizes dimensions;
  for (std::int64_t i = 2; i < input.dim(); ++i) dimensions.push_back(i);
  return dimensions;
}

at::Tensor run(const Activation& activation, const at::Tensor& x) {
  using Kind = Activation::Kind;
  switch (activation.kind) {
    case Kind::sigmoid:
      return at::sigmoid(x);
    case Kind::tanh:
      return at::tanh(x);
    case Kind::silu:
      return at::silu(x);
    case Kind::selu:
      return at::selu(x);
    case Kind::elu:
      return at::elu(x, activation.alpha);
    case Kind::leaky_relu:
      return at::leaky_relu(x, activation.alpha);
    case Kind::hard_sigmoid:
      return at::hardsigmoid(x);
    case Kind::hard_swish:
      return at::hardswish(x);
    case Kind::gelu:
      return at::gelu(x, "none");
    case Kind::gelu_tanh:
      return at::gelu(x, "tanh");
  }
  throw Error(ErrorCode::unsupported, concat("unknown activation ", static_cast<int>(activation.kind)));
}

// The tensor's dimension that holds `axis` of a per-sample shape of `rank` dimensions.
std::int64_t dimension_of(std::int64_t axis, const at::Tensor& value, std::size_t rank) {
  return is_lifted(value, rank) && axis >= 1 ? axis + 2 : axis + 1;
}

// The same values in one form, lifted if any of them is.
std::vector<at::Tensor> alike(std::vector<at::Tensor> values, std::size_t rank) {
  const bool lift = std::ranges::any_of(values, [&](const at::Tensor& value) { return is_lifted(value, rank); });
  if (lift) std::ranges::transform(values, values.begin(), to_lifted);
  return values;
}

at::Tensor reshaped(const at::Tensor& input, std::size_t rank, const Shape& shape) {
  Sizes sizes = {input.size(0)};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  return to_plain(input, rank).reshape(sizes);
}

}  // namespace

at::Tensor to_lifted(const at::Tensor& value) {
  const at::Tensor four = value.dim() == 3 ? value.unsqueeze(2) : value;
  return four.contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor to_plain(const at::Tensor& value, std::size_t rank) {
  return is_lifted(value, rank) ? value.squeeze(2) : value;
}

at::Tensor convolve(const Conv& conv, const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  const Sizes begin = lifted(conv.pads_begin, 0);
  const Sizes end = lifted(conv.pads_end, 0);
  const at::Tensor x = to_lifted(input);
  // A weight in the input's memory format saves its gradient a reordering.
  const at::Tensor w = to_lifted(weight);
  const Sizes stride = lifted(conv.stride, 1);
  const Sizes dilation = lifted(conv.dilation, 1);
  if (begin == end) return at::conv2d(x, w, bias, stride, begin, dilation, conv.groups);
  return at::conv2d(padded(x, begin, end, 0.0), w, bias, stride, at::IntArrayRef{0}, dilation, conv.groups);
}

at::Tensor multiply(const at::Tensor& input, std::size_t rank, const at::Tensor& weight, const at::Tensor& bias) {
  return at::linear(to_plain(input, rank), weight, bias);
}

at::Tensor clamp(const Clamp& bounds, const at::Tensor& input, bool in_place) {
  at::Tensor x = input;
  const bool has_minimum = bounds.minimum != -std::numeric_limits<float>::infinity();
  const bool has_maximum = bounds.maximum != std::numeric_limits<float>::infinity();
  if (!has_maximum) {
    if (!has_minimum) return x;
    if (bounds.minimum == 0.0F) return in_place ? x.relu_() : x.relu();
    return in_place ? x.clamp_min_(bounds.minimum) : x.clamp_min(bounds.minimum);
  }
  if (!has_minimum) return in_place ? x.clamp_max_(bounds.maximum) : x.clamp_max(bounds.maximum);
  // Not at::clamp: its gradient at the bounds themselves is 1, that of ReLU6 and hardtanh is 0.
  return in_place ? at::hardtanh_(x, bounds.minimum, bounds.maximum) : at::hardtanh(x, bounds.minimum, bounds.maximum);
}

at::Tensor drop(const Dropout& dropout, const at::Tensor& input, const Shape& shape,
                const std::optional<at::Generator>& generator) {
  Sizes sizes = {input.size(0)};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  if (dropout.channels) std::fill(sizes.begin() + std::min<std::ptrdiff_t>(2, std::ssize(sizes)), sizes.end(), 1);
  at::Tensor kept = dropout.p < 1
                        ? at::empty(sizes, input.options()).bernoulli_(1 - dropout.p, generator).div_(1 - dropout.p)
                        : at::zeros(sizes, input.options());
  if (is_lifted(input, shape.size())) kept = kept.unsqueeze(2);
  return input * kept;
}

at::Tensor apply(const Graph& graph, const Node& node, const std::vector<at::Tensor>& inputs, bool training,
                 std::optional<std::size_t> owned_input, const std::optional<at::Generator>& generator) {
  const Shape& shape = graph.values[node.inputs[0]].shape;
  const std::size_t rank = shape.size();
  at::Tensor x = inputs[0];
  const auto visitor = [&]<typename Operation>(const Operation& op) -> at::Tensor {
    if constexpr (std::is_same_v<Operation, Clamp>) {
      return clamp(op, x, owned_input.has_value());
    } else if constexpr (std::is_same_v<Operation, GlobalMean>) {
      return at::mean(x, spatial_dimensions(x));
    } else if constexpr (std::is_same_v<Operation, GlobalMax>) {
      return at::amax(x, spatial_dimensions(x));
    } else if constexpr (std::is_same_v<Operation, Add>) {
      auto operands = alike(inputs, rank);
      const at::Tensor sum =
          owned_input ? operands[*owned_input].add_(operands[1 - *owned_input]) : operands[0].add(operands[1]);
      return op.clamp ? clamp(*op.clamp, sum, true) : sum;
    } else if constexpr (std::is_same_v<Operation, Mul>) {
      const auto operands = alike(inputs, rank);
      return operands[0] * operands[1];
    } else if constexpr (std::is_same_v<Operation, Affine>) {
      const at::Tensor scaled = op.factor == 1.0F ? x : x * op.factor;
      return op.offset == 0.0F ? scaled : scaled + op.offset;
    } else if constexpr (std::is_same_v<Operation, Concat>) {
      const auto operands = alike(inputs, rank);
      return at::cat(operands, dimension_of(op.axis, operands[0], rank));
    } else if constexpr (std::is_same_v<Operation, Reshape>) {
      return reshaped(x, rank, op.shape);
    } else if constexpr (std::is_same_v<Operation, Softmax>) {
      const std::int64_t dimension = dimension_of(op.axis, x, rank);
      return op.logarithm ? at::log_softmax(x, dimension) : at::softmax(x, dimension);
    } else if constexpr (std::is_same_v<Operation, Dropout>) {
      return training ? drop(op, x, shape, generator) : x;
    } else if constexpr (std::is_same_v<Operation, MaxPool> || std::is_same_v<Operation, AvgPool> ||
                         std::is_same_v<Operation, AdaptivePool> || std::is_same_v<Operation, Activation>) {
      return run(op, x);
    } else {
      throw Error(ErrorCode::unsupported,
                  concat("node '", node.name, "': ", name_of(node.op), " does not run in a network in training"));
    }
  };
  return std::visit(visitor, node.op);
}

}  // namespace podaq::training_detail
