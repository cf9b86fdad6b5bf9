#include "runtime/naive_evaluator.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace podaq::test {

namespace {

using Numbers = std::vector<double>;

struct Evaluation {
  const Graph& graph;
  const Node& node;
  const std::vector<Numbers>& inputs;

  [[nodiscard]] const Shape& input_shape(std::size_t i = 0) const { return graph.values[node.inputs[i]].shape; }
  [[nodiscard]] const Shape& output_shape() const { return graph.values[node.output].shape; }
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(element_count(output_shape())); }

  // A weight or bias as the real numbers that it stands for; empty where absent.
  [[nodiscard]] Numbers constant(std::size_t index, double scale_of_codes = 1.0) const {
    Numbers numbers;
    if (index >= node.tensors.size() || node.tensors[index].empty()) return numbers;
    const Tensor& tensor = graph.tensors.at(node.tensors[index]);
    const auto count = static_cast<std::size_t>(element_count(tensor.shape));
    for (std::size_t i = 0; i < count; ++i) {
      if (tensor.dtype == DType::f32) numbers.push_back(elements<float>(tensor)[i]);
      if (tensor.dtype == DType::s8) numbers.push_back(elements<std::int8_t>(tensor)[i] * weight_scale(tensor, i));
      if (tensor.dtype == DType::i32)
        numbers.push_back(elements<std::int32_t>(tensor)[i] * scale_of_codes *
                          weight_scale(graph.tensors.at(node.tensors[0]), i, true));
    }
    return numbers;
  }

  static double weight_scale(const Tensor& weight, std::size_t index, bool index_is_channel = false) {
    const auto channels = static_cast<std::size_t>(weight.shape[0]);
    const auto per_channel = static_cast<std::size_t>(element_count(weight.shape)) / channels;
    if (weight.scales.size() == 1) return weight.scales[0];
    return weight.scales[index_is_channel ? index : index / per_channel];
  }

  [[nodiscard]] double input_scale() const {
    const auto& q = graph.values[node.inputs[0]].qparams;
    return q ? q->scale : 1.0;
  }
};

// Sizes along two spatial dimensions; 1-D has height 1.
struct Plane {
  std::int64_t channels, height, width;
  explicit Plane(const Shape& shape)
      : channels(shape[0]), height(shape.size() == 3 ? shape[1] : 1), width(shape.back()) {}
  [[nodiscard]] std::size_t at(std::int64_t c, std::int64_t y, std::int64_t x) const {
    return static_cast<std::size_t>((c * height + y) * width + x);
  }
  [[nodiscard]] bool holds(std::int64_t y, std::int64_t x) const { return y >= 0 && y < height && x >= 0 && x < width; }
};

// An attribute as a pair (vertical, horizontal).
std::pair<std::int64_t, std::int64_t> pair_of(const std::vector<std::int64_t>& entries, std::int64_t vertical) {
  if (entries.size() == 2) return {entries[0], entries[1]};
  return {vertical, entries[0]};
}

double clamped(double x, const std::optional<Clamp>& clamp) {
  return clamp ? std::min(std::max(x, static_cast<double>(clamp->minimum)), static_cast<double>(clamp->maximum)) : x;
}

void finish_weighted(const Evaluation& e, Ideal& ideal, bool adds_input, const std::optional<Clamp>& clamp) {
  for (std::size_t i = 0; i < ideal.values.size(); ++i) {
    if (adds_input) {
      ideal.values[i] += e.inputs[1][i];
      ideal.magnitudes[i] += std::abs(e.inputs[1][i]);
    }
    ideal.values[i] = clamped(ideal.values[i], clamp);
  }
}

Ideal ideal_of(const Evaluation& e, const Conv& conv) {
  const Plane in(e.input_shape());
  const Plane out(e.output_shape());
  const Shape& weight_shape = e.graph.tensors.at(e.node.tensors[0]).shape;
  const std::int64_t group_inputs = weight_shape[1];
  const std::int64_t kernel_height = weight_shape.size() == 4 ? weight_shape[2] : 1;
  const std::int64_t kernel_width = weight_shape.back();
  const auto [stride_y, stride_x] = pair_of(conv.stride, 1);
  const auto [pad_y, pad_x] = pair_of(conv.pads_begin, 0);
  const auto [dilation_y, dilation_x] = pair_of(conv.dilation, 1);
  const Numbers weight = e.constant(0);
  const Numbers bias = e.constant(1, e.input_scale());
  Ideal ideal{Numbers(e.size()), Numbers(e.size())};
  for (std::int64_t k = 0; k < out.channels; ++k)
    for (std::int64_t oy = 0; oy < out.height; ++oy)
      for (std::int64_t ox = 0; ox < out.width; ++ox) {
        double sum = bias.empty() ? 0.0 : bias[static_cast<std::size_t>(k)];
        double magnitude = std::abs(sum);
        for (std::int64_t c = 0; c < group_inputs; ++c)
          for (std::int64_t ky = 0; ky < kernel_height; ++ky)
            for (std::int64_t kx = 0; kx < kernel_width; ++kx) {
              const std::int64_t y = oy * stride_y + ky * dilation_y - pad_y;
              const std::int64_t x = ox * stride_x + kx * dilation_x - pad_x;
              if (!in.holds(y, x)) continue;
              const std::int64_t channel = k / (out.channels / conv.groups) * group_inputs + c;
              const auto w =
                  static_cast<std::size_t>(((k * group_inputs + c) * kernel_height + ky) * kernel_width + kx);
              const double product = e.inputs[0][in.at(channel, y, x)] * weight[w];
              sum += product;
              magnitude += std::abs(product);
            }
        ideal.values[out.at(k, oy, ox)] = sum;
        ideal.magnitudes[out.at(k, oy, ox)] = magnitude;
      }
  finish_weighted(e, ideal, conv.adds_input, conv.clamp);
  return ideal;
}

Ideal ideal_of(const Evaluation& e, const Linear& linear) {
  const auto in = static_cast<std::size_t>(e.input_shape().back());
  const auto out = static_cast<std::size_t>(e.output_shape().back());
  const Numbers weight = e.constant(0);
  const Numbers bias = e.constant(1, e.input_scale());
  Ideal ideal{Numbers(e.size()), Numbers(e.size())};
  for (std::size_t index = 0; index < e.size(); ++index) {
    const std::size_t row = index / out;
    const std::size_t o = index % out;
    if (!bias.empty()) ideal.values[index] = bias[o];
    ideal.magnitudes[index] = std::abs(ideal.values[index]);
    for (std::size_t i = 0; i < in; ++i) {
      const double product = e.inputs[0][row * in + i] * weight[o * in + i];
      ideal.values[index] += product;
      ideal.magnitudes[index] += std::abs(product);
    }
  }
  finish_weighted(e, ideal, linear.adds_input, linear.clamp);
  return ideal;
}

Ideal elementwise(const Evaluation& e, const std::function<double(std::size_t)>& function) {
  Ideal ideal;
  for (std::size_t i = 0; i < e.size(); ++i) {
    ideal.values.push_back(function(i));
    double magnitude = std::abs(ideal.values.back());
    for (const Numbers& input : e.inputs) magnitude += std::abs(input[i]);
    ideal.magnitudes.push_back(magnitude);
  }
  return ideal;
}

Ideal ideal_of(const Evaluation& e, const BatchNorm& norm) {
  const Numbers weight = e.constant(0);
  const Numbers bias = e.constant(1);
  const Numbers mean = e.constant(2);
  const Numbers variance = e.constant(3);
  const std::size_t positions = e.size() / mean.size();
  Ideal ideal;
  for (std::size_t i = 0; i < e.size(); ++i) {
    const std::size_t c = i / positions;
    const double scale = (weight.empty() ? 1.0 : weight[c]) / std::sqrt(variance[c] + norm.epsilon);
    const double shift = bias.empty() ? 0.0 : bias[c];
    ideal.values.push_back((e.inputs[0][i] - mean[c]) * scale + shift);
    ideal.magnitudes.push_back((std::abs(e.inputs[0][i]) + std::abs(mean[c])) * std::abs(scale) + std::abs(shift));
  }
  return ideal;
}

// Reduces the elements of each window; `reduce` gets them and the window's full size.
struct WindowBounds {
  std::int64_t first_y, first_x, count_y, count_x, step_y, step_x;
};
Ideal pooled(const Evaluation& e, const std::function<WindowBounds(std::int64_t, std::int64_t)>& bounds, bool is_max,
             bool counts_padding) {
  const Plane in(e.input_shape());
  const Plane out(e.output_shape());
  Ideal ideal{Numbers(e.size()), Numbers(e.size())};
  for (std::int64_t c = 0; c < out.channels; ++c)
    for (std::int64_t oy = 0; oy < out.height; ++oy)
      for (std::int64_t ox = 0; ox < out.width; ++ox) {
        const WindowBounds w = bounds(oy, ox);
        double largest = -std::numeric_limits<double>::infinity();
        double sum = 0.0;
        double magnitude = 0.0;
        double count = 0.0;
        for (std::int64_t i = 0; i < w.count_y; ++i)
          for (std::int64_t j = 0; j < w.count_x; ++j) {
            const std::int64_t y = w.first_y + i * w.step_y;
            const std::int64_t x = w.first_x + j * w.step_x;
            if (!in.holds(y, x)) continue;
            const double element = e.inputs[0][in.at(c, y, x)];
            largest = std::max(largest, element);
            sum += element;
            magnitude += std::abs(element);
            count += 1.0;
          }
        if (counts_padding) count = static_cast<double>(w.count_y * w.count_x);
        ideal.values[out.at(c, oy, ox)] = is_max ? largest : sum / count;
        ideal.magnitudes[out.at(c, oy, ox)] = magnitude;
      }
  return ideal;
}

template <typename Fixed>
Ideal fixed_pool(const Evaluation& e, const Fixed& pool, const std::vector<std::int64_t>& dilation, bool is_max,
                 bool counts_padding) {
  const auto [kernel_y, kernel_x] = pair_of(pool.kernel, 1);
  const auto [stride_y, stride_x] = pair_of(pool.stride, 1);
  const auto [pad_y, pad_x] = pair_of(pool.pads_begin, 0);
  const auto [dilation_y, dilation_x] = pair_of(dilation, 1);
  const WindowBounds first{-pad_y, -pad_x, kernel_y, kernel_x, dilation_y, dilation_x};
  return pooled(
      e,
      [first, sy = stride_y, sx = stride_x](std::int64_t oy, std::int64_t ox) {
        WindowBounds w = first;
        w.first_y += oy * sy;
        w.first_x += ox * sx;
        return w;
      },
      is_max, counts_padding);
}

Ideal ideal_of(const Evaluation& e, const MaxPool& pool) {
  return fixed_pool(e, pool, pool.dilation, true, false);
}

Ideal ideal_of(const Evaluation& e, const AvgPool& pool) {
  return fixed_pool(e, pool, std::vector<std::int64_t>(pool.kernel.size(), 1), false, pool.count_padding);
}

Ideal ideal_of(const Evaluation& e, const AdaptivePool& pool) {
  const Plane in(e.input_shape());
  const Plane out(e.output_shape());
  const auto first = [](std::int64_t i, std::int64_t n, std::int64_t m) { return i * n / m; };
  const auto last = [](std::int64_t i, std::int64_t n, std::int64_t m) { return ((i + 1) * n + m - 1) / m; };
  return pooled(
      e,
      [&](std::int64_t oy, std::int64_t ox) {
        const std::int64_t y = first(oy, in.height, out.height);
        const std::int64_t x = first(ox, in.width, out.width);
        return WindowBounds{y, x, last(oy, in.height, out.height) - y, last(ox, in.width, out.width) - x, 1, 1};
      },
      pool.kind == AdaptivePool::Kind::max, false);
}

Ideal global(const Evaluation& e, bool is_max) {
  const std::size_t positions = e.inputs[0].size() / e.size();
  Ideal ideal;
  for (std::size_t c = 0; c < e.size(); ++c) {
    double sum = 0.0;
    double magnitude = 0.0;
    double largest = -std::numeric_limits<double>::infinity();
    for (std::size_t i = c * positions; i < (c + 1) * positions; ++i) {
      sum += e.inputs[0][i];
      magnitude += std::abs(e.inputs[0][i]);
      largest = std::max(largest, e.inputs[0][i]);
    }
    ideal.values.push_back(is_max ? largest : sum / static_cast<double>(positions));
    ideal.magnitudes.push_back(magnitude);
  }
  return ideal;
}

Ideal ideal_of(const Evaluation& e, const GlobalMean&) {
  return global(e, false);
}
Ideal ideal_of(const Evaluation& e, const GlobalMax&) {
  return global(e, true);
}
Ideal ideal_of(const Evaluation& e, const Clamp& clamp) {
  return elementwise(e, [&](std::size_t i) { return clamped(e.inputs[0][i], clamp); });
}
Ideal ideal_of(const Evaluation& e, const Add& add) {
  return elementwise(e, [&](std::size_t i) { return clamped(e.inputs[0][i] + e.inputs[1][i], add.clamp); });
}
Ideal ideal_of(const Evaluation& e, const Mul&) {
  return elementwise(e, [&](std::size_t i) { return e.inputs[0][i] * e.inputs[1][i]; });
}
Ideal ideal_of(const Evaluation& e, const Affine& affine) {
  return elementwise(e, [&](std::size_t i) { return e.inputs[0][i] * affine.factor + affine.offset; });
}
Ideal ideal_of(const Evaluation& e, const Reshape&) {
  return elementwise(e, [&](std::size_t i) { return e.inputs[0][i]; });
}
Ideal ideal_of(const Evaluation& e, const Dropout&) {
  return elementwise(e, [&](std::size_t i) { return e.inputs[0][i]; });
}
Ideal ideal_of(const Evaluation& e, const Quantize&) {
  return elementwise(e, [&](std::size_t i) { return e.inputs[0][i]; });
}
Ideal ideal_of(const Evaluation& e, const Dequantize&) {
  return elementwise(e, [&](std::size_t i) { return e.inputs[0][i]; });
}

double activated(const Activation& activation, double x) {
  using Kind = Activation::Kind;
  const double hard = std::min(std::max(x + 3.0, 0.0), 6.0) / 6.0;
  switch (activation.kind) {
    case Kind::sigmoid:
      return 1.0 / (1.0 + std::exp(-x));
    case Kind::tanh:
      return std::tanh(x);
    case Kind::silu:
      return x / (1.0 + std::exp(-x));
    case Kind::selu:
      return 1.0507009873554804935 * (x > 0.0 ? x : 1.6732632423543772848 * std::expm1(x));
    case Kind::elu:
      return x > 0.0 ? x : activation.alpha * std::expm1(x);
    case Kind::leaky_relu:
      return x > 0.0 ? x : activation.alpha * x;
    case Kind::hard_sigmoid:
      return hard;
    case Kind::hard_swish:
      return x * hard;
    case Kind::gelu:
      return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0)));
    case Kind::gelu_tanh:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  return x;
}

Ideal ideal_of(const Evaluation& e, const Activation& activation) {
  return elementwise(e, [&](std::size_t i) { return activated(activation, e.inputs[0][i]); });
}

Ideal ideal_of(const Evaluation& e, const Concat& concat) {
  const auto axis = static_cast<std::size_t>(concat.axis);
  const std::span<const std::int64_t> shape(e.output_shape());
  const std::int64_t inner = element_count(shape.subspan(axis + 1));
  const std::int64_t outer = element_count(shape.first(axis));
  Ideal ideal{Numbers(e.size()), Numbers(e.size())};
  std::int64_t joined = 0;
  for (std::size_t input = 0; input < e.inputs.size(); ++input) {
    const std::int64_t length = e.input_shape(input)[axis];
    for (std::int64_t o = 0; o < outer; ++o)
      for (std::int64_t j = 0; j < length * inner; ++j)
        ideal.values[static_cast<std::size_t>((o * shape[axis] + joined) * inner + j)] =
            e.inputs[input][static_cast<std::size_t>(o * length * inner + j)];
    joined += length;
  }
  return ideal;
}

Ideal ideal_of(const Evaluation& e, const Softmax& softmax) {
  const auto axis = static_cast<std::size_t>(softmax.axis);
  const std::span<const std::int64_t> shape(e.output_shape());
  const auto inner = static_cast<std::size_t>(element_count(shape.subspan(axis + 1)));
  const auto length = static_cast<std::size_t>(shape[axis]);
  Ideal ideal{Numbers(e.size()), Numbers(e.size())};
  for (std::size_t i = 0; i < e.size(); ++i) {
    const std::size_t first = i / (inner * length) * inner * length + i % inner;
    double largest = -std::numeric_limits<double>::infinity();
    for (std::size_t j = 0; j < length; ++j) largest = std::max(largest, e.inputs[0][first + j * inner]);
    double sum = 0.0;
    for (std::size_t j = 0; j < length; ++j) sum += std::exp(e.inputs[0][first + j * inner] - largest);
    const double log_probability = e.inputs[0][i] - largest - std::log(sum);
    ideal.values[i] = softmax.logarithm ? log_probability : std::exp(log_probability);
    ideal.magnitudes[i] = 1.0 + std::abs(e.inputs[0][i]) + std::abs(largest);
  }
  return ideal;
}

}  // namespace

Ideal evaluate(const Graph& graph, const Node& node, const std::vector<std::vector<double>>& inputs) {
  const Evaluation evaluation{graph, node, inputs};
  return std::visit([&](const auto& op) { return ideal_of(evaluation, op); }, node.op);
}

}  // namespace podaq::test
