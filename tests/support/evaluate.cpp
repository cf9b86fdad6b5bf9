#include "support/evaluate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <stdexcept>

namespace podaq::test {

namespace {

using Numbers = std::vector<double>;

struct Context {
  const Graph& graph;
  const Node& node;
  std::vector<const Numbers*> inputs;

  [[nodiscard]] const Numbers& input(std::size_t index) const { return *inputs.at(index); }
  [[nodiscard]] const Shape& shape(std::size_t index) const { return graph.values[node.inputs.at(index)].shape; }
  [[nodiscard]] const Shape& output_shape() const { return graph.values[node.output].shape; }
  [[nodiscard]] Numbers tensor(std::size_t index) const {
    if (node.tensors.at(index).empty()) return {};
    const auto values = numbers_of(graph.tensors.at(node.tensors[index]));
    return {values.begin(), values.end()};
  }
};

double clamped(const std::optional<Clamp>& clamp, double x) {
  return clamp ? std::min<double>(std::max<double>(x, clamp->minimum), clamp->maximum) : x;
}

template <typename Function>
Numbers map(const Numbers& input, Function function) {
  Numbers output;
  for (const double x : input) output.push_back(function(x));
  return output;
}

// One or two spatial dimensions seen as two.
struct Plane {
  std::int64_t height = 1, width = 1;
  explicit Plane(const Shape& shape) : height(shape.size() == 3 ? shape[1] : 1), width(shape.back()) {}
};

std::int64_t attribute(const std::vector<std::int64_t>& values, std::size_t axis, std::int64_t missing) {
  if (values.size() == 2) return values[axis];
  return axis == 0 ? missing : values[0];
}

// Calls visit(input row, input column, tap row, tap column) for the taps of one output position inside the input.
struct Taps {
  std::vector<std::int64_t> kernel, stride, pads_begin, dilation;

  template <typename Visit>
  void visit(const Plane& input, std::int64_t row, std::int64_t column, Visit visitor) const {
    const auto at = [&](std::size_t axis, std::int64_t output, std::int64_t tap) {
      return output * attribute(stride, axis, 1) - attribute(pads_begin, axis, 0) + tap * attribute(dilation, axis, 1);
    };
    for (std::int64_t i = 0; i < attribute(kernel, 0, 1); ++i)
      for (std::int64_t j = 0; j < attribute(kernel, 1, 1); ++j) {
        const std::int64_t y = at(0, row, i);
        const std::int64_t x = at(1, column, j);
        if (y >= 0 && y < input.height && x >= 0 && x < input.width) visitor(y, x, i, j);
      }
  }
};

template <typename At>
Numbers for_positions(const Shape& shape, At at) {
  const Plane plane(shape);
  Numbers output;
  for (std::int64_t channel = 0; channel < shape[0]; ++channel)
    for (std::int64_t row = 0; row < plane.height; ++row)
      for (std::int64_t column = 0; column < plane.width; ++column) output.push_back(at(channel, row, column));
  return output;
}

double element(const Numbers& input, const Plane& plane, std::int64_t channel, std::int64_t y, std::int64_t x) {
  return input[static_cast<std::size_t>((channel * plane.height + y) * plane.width + x)];
}

Numbers finish(const Context& context, Numbers output, bool adds_input, const std::optional<Clamp>& clamp) {
  for (std::size_t i = 0; i < output.size(); ++i)
    output[i] = clamped(clamp, output[i] + (adds_input ? context.input(1)[i] : 0.0));
  return output;
}

Numbers apply(const Context& context, const Conv& conv) {
  const Shape& weight_shape = context.graph.tensors.at(context.node.tensors[0]).shape;
  const Numbers weight = context.tensor(0);
  const Numbers bias = context.tensor(1);
  const Plane plane(context.shape(0));
  const Taps taps{{weight_shape.begin() + 2, weight_shape.end()}, conv.stride, conv.pads_begin, conv.dilation};
  const std::int64_t height = attribute(taps.kernel, 0, 1);
  const std::int64_t width = attribute(taps.kernel, 1, 1);
  const std::int64_t channels = weight_shape[1];
  Numbers output = for_positions(context.output_shape(), [&](std::int64_t k, std::int64_t row, std::int64_t column) {
    double sum = bias.empty() ? 0.0 : bias[static_cast<std::size_t>(k)];
    const std::int64_t group = k / (weight_shape[0] / conv.groups);
    for (std::int64_t c = 0; c < channels; ++c)
      taps.visit(plane, row, column, [&](std::int64_t y, std::int64_t x, std::int64_t i, std::int64_t j) {
        sum += weight[static_cast<std::size_t>(((k * channels + c) * height + i) * width + j)] *
               element(context.input(0), plane, group * channels + c, y, x);
      });
    return sum;
  });
  return finish(context, std::move(output), conv.adds_input, conv.clamp);
}

Numbers apply(const Context& context, const Linear& linear) {
  const Shape& weight_shape = context.graph.tensors.at(context.node.tensors[0]).shape;
  const auto outputs = static_cast<std::size_t>(weight_shape[0]);
  const auto inputs = static_cast<std::size_t>(weight_shape[1]);
  const Numbers weight = context.tensor(0);
  const Numbers bias = context.tensor(1);
  Numbers output;
  for (std::size_t row = 0; row < context.input(0).size() / inputs; ++row)
    for (std::size_t k = 0; k < outputs; ++k) {
      double sum = bias.empty() ? 0.0 : bias[k];
      for (std::size_t c = 0; c < inputs; ++c) sum += weight[k * inputs + c] * context.input(0)[row * inputs + c];
      output.push_back(sum);
    }
  return finish(context, std::move(output), linear.adds_input, linear.clamp);
}

Numbers apply(const Context& context, const BatchNorm& batch_norm) {
  const Numbers weight = context.tensor(0);
  const Numbers bias = context.tensor(1);
  const Numbers mean = context.tensor(2);
  const Numbers variance = context.tensor(3);
  Numbers output = context.input(0);
  for (std::size_t i = 0; i < output.size(); ++i) {
    const std::size_t channel = i / (output.size() / mean.size());
    const double normal = (output[i] - mean[channel]) / std::sqrt(variance[channel] + batch_norm.epsilon);
    output[i] = normal * (weight.empty() ? 1.0 : weight[channel]) + (bias.empty() ? 0.0 : bias[channel]);
  }
  return output;
}

Numbers apply(const Context& context, const Clamp& clamp) {
  return map(context.input(0), [&](double x) { return clamped(clamp, x); });
}

Numbers apply(const Context& context, const MaxPool& pool) {
  const Plane plane(context.shape(0));
  const Taps taps{pool.kernel, pool.stride, pool.pads_begin, pool.dilation};
  return for_positions(context.output_shape(), [&](std::int64_t channel, std::int64_t row, std::int64_t column) {
    double largest = -std::numeric_limits<double>::infinity();
    taps.visit(plane, row, column, [&](std::int64_t y, std::int64_t x, std::int64_t, std::int64_t) {
      largest = std::max(largest, element(context.input(0), plane, channel, y, x));
    });
    return largest;
  });
}

Numbers apply(const Context& context, const AvgPool& pool) {
  const Plane plane(context.shape(0));
  const Taps taps{pool.kernel, pool.stride, pool.pads_begin, std::vector<std::int64_t>(pool.kernel.size(), 1)};
  const auto window = static_cast<double>(element_count(pool.kernel));
  return for_positions(context.output_shape(), [&](std::int64_t channel, std::int64_t row, std::int64_t column) {
    double sum = 0.0;
    double count = 0.0;
    taps.visit(plane, row, column, [&](std::int64_t y, std::int64_t x, std::int64_t, std::int64_t) {
      sum += element(context.input(0), plane, channel, y, x);
      count += 1.0;
    });
    return sum / (pool.count_padding ? window : count);
  });
}

Numbers apply(const Context& context, const AdaptivePool& pool) {
  const Plane in(context.shape(0));
  const Plane out(context.output_shape());
  const auto begin = [](std::int64_t i, std::int64_t input, std::int64_t output) { return i * input / output; };
  const auto end = [](std::int64_t i, std::int64_t input, std::int64_t output) {
    return ((i + 1) * input + output - 1) / output;
  };
  return for_positions(context.output_shape(), [&](std::int64_t channel, std::int64_t row, std::int64_t column) {
    double sum = 0.0;
    double count = 0.0;
    double largest = -std::numeric_limits<double>::infinity();
    for (std::int64_t y = begin(row, in.height, out.height); y < end(row, in.height, out.height); ++y)
      for (std::int64_t x = begin(column, in.width, out.width); x < end(column, in.width, out.width); ++x) {
        const double number = element(context.input(0), in, channel, y, x);
        sum += number;
        count += 1.0;
        largest = std::max(largest, number);
      }
    return pool.kind == AdaptivePool::Kind::mean ? sum / count : largest;
  });
}

template <typename Reduce>
Numbers reduce_channels(const Context& context, Reduce reduce) {
  const auto channels = static_cast<std::size_t>(context.shape(0)[0]);
  const std::size_t size = context.input(0).size() / channels;
  Numbers output;
  for (std::size_t channel = 0; channel < channels; ++channel)
    output.push_back(reduce(std::span(context.input(0)).subspan(channel * size, size)));
  return output;
}

Numbers apply(const Context& context, const GlobalMean&) {
  return reduce_channels(context, [](std::span<const double> numbers) {
    double sum = 0.0;
    for (const double number : numbers) sum += number;
    return sum / static_cast<double>(numbers.size());
  });
}

Numbers apply(const Context& context, const GlobalMax&) {
  return reduce_channels(context, [](std::span<const double> numbers) { return *std::ranges::max_element(numbers); });
}

Numbers apply(const Context& context, const Add& add) {
  Numbers output = context.input(0);
  for (std::size_t i = 0; i < output.size(); ++i) output[i] = clamped(add.clamp, output[i] + context.input(1)[i]);
  return output;
}

Numbers apply(const Context& context, const Mul&) {
  Numbers output = context.input(0);
  for (std::size_t i = 0; i < output.size(); ++i) output[i] *= context.input(1)[i];
  return output;
}

Numbers apply(const Context& context, const Affine& affine) {
  return map(context.input(0), [&](double x) { return x * affine.factor + affine.offset; });
}

// A shape seen from one axis: [outer, size, inner].
struct Axis {
  std::size_t outer = 1, size = 1, inner = 1;
  Axis(const Shape& shape, std::int64_t axis) {
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const auto length = static_cast<std::size_t>(shape[i]);
      if (static_cast<std::int64_t>(i) < axis)
        outer *= length;
      else if (static_cast<std::int64_t>(i) == axis)
        size = length;
      else
        inner *= length;
    }
  }
};

Numbers apply(const Context& context, const Concat& joined) {
  const Axis whole(context.output_shape(), joined.axis);
  Numbers output;
  for (std::size_t outer = 0; outer < whole.outer; ++outer)
    for (std::size_t i = 0; i < context.inputs.size(); ++i) {
      const Axis part(context.shape(i), joined.axis);
      const auto begin = context.input(i).begin() + static_cast<std::ptrdiff_t>(outer * part.size * part.inner);
      output.insert(output.end(), begin, begin + static_cast<std::ptrdiff_t>(part.size * part.inner));
    }
  return output;
}

double activated(const Activation& activation, double x) {
  const double alpha = activation.alpha;
  const double hard = std::min(std::max(x + 3.0, 0.0), 6.0) / 6.0;
  switch (activation.kind) {
    case ActivationKind::sigmoid:
      return 1.0 / (1.0 + std::exp(-x));
    case ActivationKind::tanh:
      return std::tanh(x);
    case ActivationKind::silu:
      return x / (1.0 + std::exp(-x));
    case ActivationKind::selu:
      return 1.0507009873554804934 * (x > 0.0 ? x : 1.6732632423543772848 * std::expm1(x));
    case ActivationKind::elu:
      return x > 0.0 ? x : alpha * std::expm1(x);
    case ActivationKind::leaky_relu:
      return x > 0.0 ? x : alpha * x;
    case ActivationKind::hard_sigmoid:
      return hard;
    case ActivationKind::hard_swish:
      return x * hard;
    case ActivationKind::gelu:
      return 0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2));
    case ActivationKind::gelu_tanh:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  }
  throw std::logic_error("unknown activation");
}

Numbers apply(const Context& context, const Activation& activation) {
  return map(context.input(0), [&](double x) { return activated(activation, x); });
}

Numbers apply(const Context& context, const Softmax& softmax) {
  const Axis axis(context.shape(0), softmax.axis);
  Numbers output = context.input(0);
  for (std::size_t outer = 0; outer < axis.outer; ++outer)
    for (std::size_t inner = 0; inner < axis.inner; ++inner) {
      const auto at = [&](std::size_t i) { return (outer * axis.size + i) * axis.inner + inner; };
      double largest = -std::numeric_limits<double>::infinity();
      for (std::size_t i = 0; i < axis.size; ++i) largest = std::max(largest, output[at(i)]);
      double sum = 0.0;
      for (std::size_t i = 0; i < axis.size; ++i) sum += std::exp(output[at(i)] - largest);
      for (std::size_t i = 0; i < axis.size; ++i) {
        const double shifted = output[at(i)] - largest;
        output[at(i)] = softmax.logarithm ? shifted - std::log(sum) : std::exp(shifted) / sum;
      }
    }
  return output;
}

Numbers apply(const Context& context, const Reshape&) {
  return context.input(0);
}
Numbers apply(const Context& context, const Dropout&) {
  return context.input(0);
}
Numbers apply(const Context&, const Quantize&) {
  throw std::logic_error("evaluate: a float graph has no quantize");
}
Numbers apply(const Context&, const Dequantize&) {
  throw std::logic_error("evaluate: a float graph has no dequantize");
}

}  // namespace

std::vector<Numbers> evaluate(const Graph& graph, const std::vector<Numbers>& inputs) {
  std::vector<Numbers> values(graph.values.size());
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) values[graph.inputs[i]] = inputs.at(i);
  for (const Node& node : graph.nodes) {
    Context context{.graph = graph, .node = node, .inputs = {}};
    for (const ValueId input : node.inputs) context.inputs.push_back(&values[input]);
    values[node.output] = std::visit([&](const auto& op) { return apply(context, op); }, node.op);
  }
  std::vector<Numbers> outputs;
  for (const ValueId output : graph.outputs) outputs.push_back(values[output]);
  return outputs;
}

}  // namespace podaq::test
