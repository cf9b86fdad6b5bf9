#include "runtime/synthetic_network.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "podaq/graph/verify.h"

namespace podaq::runtime_detail {

namespace {

constexpr QParams codes{.scale = 0.02F, .zero_point = 0, .lowest = 0, .highest = 255};

}  // namespace

NetworkBuilder::NetworkBuilder(const Shape& input) {
  last = add_value(graph_, "input", input);
  graph_.inputs = {last};
  append(Quantize{}, {}, QParams{.scale = 0.02F, .zero_point = 128, .lowest = 0, .highest = 255});
}

void NetworkBuilder::conv(std::int64_t outputs, std::int64_t kernel, bool clamps, std::optional<ValueId> added) {
  const Shape input = graph_.values[last].shape;
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

void NetworkBuilder::linear(std::int64_t outputs, bool is_last) {
  const std::int64_t inputs = graph_.values[last].shape.back();
  append(Linear{.clamp = is_last ? std::nullopt : std::optional(Clamp{.minimum = 0.0F})},
         {weight({outputs, inputs}), bias(outputs)}, is_last ? std::nullopt : std::optional(codes));
}

void NetworkBuilder::max_pool() {
  const std::vector<std::int64_t> twos(graph_.values[last].shape.size() - 1, 2);
  const std::vector<std::int64_t> zeros(twos.size(), 0);
  const std::vector<std::int64_t> ones(twos.size(), 1);
  append(MaxPool{.kernel = twos, .stride = twos, .pads_begin = zeros, .pads_end = zeros, .dilation = ones}, {}, codes);
}

void NetworkBuilder::flatten() {
  append(Reshape{.shape = {element_count(graph_.values[last].shape)}}, {}, codes);
}

Graph NetworkBuilder::finish() {
  if (graph_.values[last].qparams) append(Dequantize{}, {}, std::nullopt);
  graph_.outputs = {last};
  return std::move(graph_);
}

void NetworkBuilder::append(const Op& op, std::vector<std::string> tensors, std::optional<QParams> qparams,
                            std::optional<ValueId> added) {
  const std::string name = "node" + std::to_string(graph_.nodes.size());
  Node node{.op = op, .name = name, .inputs = {last}, .tensors = std::move(tensors)};
  if (added) node.inputs.push_back(*added);
  const Shape shape = infer_shape(graph_, node);
  last = add_value(graph_, name + ".output", shape, qparams);
  node.output = last;
  graph_.nodes.push_back(std::move(node));
}

std::string NetworkBuilder::weight(const Shape& shape) {
  const std::string name = "tensor" + std::to_string(graph_.tensors.size());
  const auto count = static_cast<std::size_t>(element_count(shape));
  std::vector<std::int8_t> elements(count);
  for (std::int8_t& w : elements) w = static_cast<std::int8_t>(static_cast<int>(engine_() % 255) - 127);
  graph_.tensors[name] = make_tensor<std::int8_t>(DType::s8, shape, elements);
  const auto fan_in = static_cast<float>(count) / static_cast<float>(shape[0]);
  graph_.tensors[name].scales.assign(static_cast<std::size_t>(shape[0]), 0.01F / std::sqrt(fan_in));
  return name;
}

std::string NetworkBuilder::bias(std::int64_t outputs) {
  const std::string name = "tensor" + std::to_string(graph_.tensors.size());
  graph_.tensors[name] =
      make_tensor<std::int32_t>(DType::i32, {outputs}, std::vector<std::int32_t>(static_cast<std::size_t>(outputs), 7));
  return name;
}
Graph prune(Graph graph, double sparsity, std::int64_t channels) {
  std::mt19937 engine{2};
  for (auto& [name, tensor] : graph.tensors) {
    if (tensor.dtype != DType::s8) continue;
    const std::int64_t rows = tensor.shape[0];
    const std::int64_t columns = element_count(tensor.shape) / rows;
    for (std::int64_t row = 0; row < rows; row += channels)
      for (std::int64_t column = 0; column < columns; ++column) {
        if (static_cast<double>(engine()) >= sparsity * 4294967296.0) continue;
        for (std::int64_t i = row; i < std::min(row + channels, rows); ++i)
          elements<std::int8_t>(tensor)[static_cast<std::size_t>(i * columns + column)] = 0;
      }
  }
  return graph;
}

}  // namespace podaq::runtime_detail
