#pragma once

// The networks that benchmarks share, on codes, with random weights.

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "podaq/graph/verify.h"

namespace podaq::benchmarks {

/// Builds a network on codes, node after node; each method appends to `last`.
class NetworkBuilder {
 public:
  explicit NetworkBuilder(const Shape& input) {
    last = add_value(graph, "input", input);
    graph.inputs = {last};
    append(Quantize{}, {}, QParams{.scale = 0.02F, .zero_point = 128, .lowest = 0, .highest = 255});
  }

  ValueId last = 0;

  void conv(std::int64_t outputs, std::int64_t kernel, bool clamps = true, std::optional<ValueId> added = {}) {
    const Shape input = graph.values[last].shape;
    const std::size_t spatial = input.size() - 1;
    Shape shape = {outputs, input[0]};
    shape.insert(shape.end(), spatial, kernel);
    const std::vector<std::int64_t> ones(spatial, 1);
    const std::vector<std::int64_t> pads(spatial, kernel / 2);
    Conv op{.stride = ones,
            .pads_begin = pads,
            .pads_end = pads,
            .dilation = ones,
            .adds_input = added.has_value(),
            .clamp = {}};
    if (clamps) op.clamp = Clamp{.minimum = 0.0F};
    append(op, {weight(shape), bias(outputs)}, codes, added);
  }

  void linear(std::int64_t outputs, bool is_last = false) {
    const std::int64_t inputs = graph.values[last].shape.back();
    append(Linear{.clamp = is_last ? std::nullopt : std::optional(Clamp{.minimum = 0.0F})},
           {weight({outputs, inputs}), bias(outputs)}, is_last ? std::nullopt : std::optional(codes));
  }

  void max_pool() {
    const std::vector<std::int64_t> twos(graph.values[last].shape.size() - 1, 2);
    const std::vector<std::int64_t> zeros(twos.size(), 0);
    const std::vector<std::int64_t> ones(twos.size(), 1);
    append(MaxPool{.kernel = twos, .stride = twos, .pads_begin = zeros, .pads_end = zeros, .dilation = ones}, {},
           codes);
  }

  void flatten() { append(Reshape{.shape = {element_count(graph.values[last].shape)}}, {}, codes); }

  Graph finish() {
    graph.outputs = {last};
    return std::move(graph);
  }

 private:
  static constexpr QParams codes{.scale = 0.02F, .zero_point = 0, .lowest = 0, .highest = 255};
  Graph graph;
  std::mt19937 engine{1};

  void append(const Op& op, std::vector<std::string> tensors, std::optional<QParams> qparams,
              std::optional<ValueId> added = {}) {
    const std::string name = "node" + std::to_string(graph.nodes.size());
    Node node{.op = op, .name = name, .inputs = {last}, .tensors = std::move(tensors)};
    if (added) node.inputs.push_back(*added);
    const Shape shape = infer_shape(graph, node);
    last = add_value(graph, name + ".output", shape, qparams);
    node.output = last;
    graph.nodes.push_back(std::move(node));
  }

  std::string weight(const Shape& shape) {
    const std::string name = "tensor" + std::to_string(graph.tensors.size());
    const auto count = static_cast<std::size_t>(element_count(shape));
    std::vector<std::int8_t> elements(count);
    for (std::int8_t& w : elements) w = static_cast<std::int8_t>(static_cast<int>(engine() % 255) - 127);
    graph.tensors[name] = make_tensor<std::int8_t>(DType::s8, shape, elements);
    const auto fan_in = static_cast<float>(count) / static_cast<float>(shape[0]);
    graph.tensors[name].scales.assign(static_cast<std::size_t>(shape[0]), 0.01F / std::sqrt(fan_in));
    return name;
  }

  std::string bias(std::int64_t outputs) {
    const std::string name = "tensor" + std::to_string(graph.tensors.size());
    graph.tensors[name] = make_tensor<std::int32_t>(DType::i32, {outputs},
                                                    std::vector<std::int32_t>(static_cast<std::size_t>(outputs), 7));
    return name;
  }
};

/// 2x1024 I/Q samples, seven convolutions of 64 channels, each pooled.
inline Graph vgg10_1d() {
  NetworkBuilder net({2, 1024});
  for (int block = 0; block < 7; ++block) {
    net.conv(64, 3);
    net.max_pool();
  }
  net.flatten();
  net.linear(128);
  net.linear(128);
  net.linear(24, true);
  return net.finish();
}

/// Six stacks of a 1x1 convolution, two residual units and a pooling, 32 channels.
inline Graph resnet_1d() {
  NetworkBuilder net({2, 1024});
  for (int stack = 0; stack < 6; ++stack) {
    net.conv(32, 1, false);
    for (int unit = 0; unit < 2; ++unit) {
      const ValueId skipped = net.last;
      net.conv(32, 3);
      net.conv(32, 3, true, skipped);
    }
    net.max_pool();
  }
  net.flatten();
  net.linear(128);
  net.linear(128);
  net.linear(24, true);
  return net.finish();
}

inline Graph cnn_a(std::int64_t channels, std::int64_t size) {
  NetworkBuilder net({channels, size, size});
  for (const std::int64_t width : {32, 64, 128}) {
    net.conv(width, 3);
    net.conv(width, 3);
    net.max_pool();
  }
  net.flatten();
  net.linear(1024);
  net.linear(10, true);
  return net.finish();
}

/// VGG16 for 32x32 images, with two hidden linear layers of 4096.
inline Graph vgg16() {
  NetworkBuilder net({3, 32, 32});
  for (const std::vector<std::int64_t>& block : std::vector<std::vector<std::int64_t>>{
           {64, 64}, {128, 128}, {256, 256, 256}, {512, 512, 512}, {512, 512, 512}}) {
    for (const std::int64_t width : block) net.conv(width, 3);
    net.max_pool();
  }
  net.flatten();
  net.linear(4096);
  net.linear(4096);
  net.linear(10, true);
  return net.finish();
}

struct NamedNetwork {
  const char* name;
  Graph (*build)();
};

inline std::vector<NamedNetwork> networks() {
  return {{"vgg10_1d", vgg10_1d},
          {"resnet_1d", resnet_1d},
          {"cnn_a_28", [] { return cnn_a(1, 28); }},
          {"cnn_a_32", [] { return cnn_a(3, 32); }},
          {"vgg16", vgg16}};
}

}  // namespace podaq::benchmarks
