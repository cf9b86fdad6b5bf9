#pragma once

#include <torch/torch.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "podaq/graph/graph.h"
#include "podaq/graph/verify.h"
#include "podaq/training/graph_module.h"

namespace podaq::test {

/// Builds small networks op by op, with random parameters, without a module to capture.
class NetworkBuilder {
 public:
  explicit NetworkBuilder(std::uint64_t seed = 1) : generator_(at::make_generator<at::CPUGeneratorImpl>(seed)) {}

  ValueId input(const std::string& name, Shape shape) {
    const ValueId value = add_value(graph_, name, std::move(shape));
    graph_.inputs.push_back(value);
    return value;
  }

  ValueId conv(ValueId x, const std::string& name, std::int64_t channels, std::int64_t taps, bool has_bias = true,
               std::int64_t groups = 1) {
    const Shape& shape = graph_.values[x].shape;
    const std::size_t spatial = shape.size() - 1;
    std::vector<std::int64_t> weight_shape = {channels, shape[0] / groups};
    weight_shape.insert(weight_shape.end(), spatial, taps);
    return node(Conv{.stride = std::vector<std::int64_t>(spatial, 1),
                     .pads_begin = std::vector<std::int64_t>(spatial, taps / 2),
                     .pads_end = std::vector<std::int64_t>(spatial, taps / 2),
                     .dilation = std::vector<std::int64_t>(spatial, 1),
                     .groups = groups,
                     .adds_input = false,
                     .clamp = {}},
                name, {x}, {weight(name, weight_shape), has_bias ? bias(name, channels) : ""});
  }

  ValueId linear(ValueId x, const std::string& name, std::int64_t outputs, bool has_bias = true) {
    return node(Linear{}, name, {x},
                {weight(name, {outputs, graph_.values[x].shape.back()}), has_bias ? bias(name, outputs) : ""});
  }

  ValueId batch_norm(ValueId x, const std::string& name) {
    const std::int64_t channels = graph_.values[x].shape[0];
    parameter(name + ".weight", torch::rand({channels}, generator_) + 0.5);
    parameter(name + ".bias", torch::randn({channels}, generator_) * 0.2);
    buffer(name + ".running_mean", torch::zeros({channels}));
    buffer(name + ".running_var", torch::ones({channels}));
    buffer(name + ".num_batches_tracked", torch::zeros({}, torch::kLong), DType::i32);
    return node(BatchNorm{}, name, {x},
                {name + ".weight", name + ".bias", name + ".running_mean", name + ".running_var",
                 name + ".num_batches_tracked"});
  }

  ValueId relu(ValueId x, const std::string& name) { return node(Clamp{.minimum = 0.0F}, name, {x}, {}); }

  [[nodiscard]] const Shape& shape_of(ValueId x) const { return graph_.values[x].shape; }

  /// Any op without tensors.
  ValueId apply(Op op, const std::string& name, std::vector<ValueId> inputs) {
    return node(std::move(op), name, std::move(inputs), {});
  }

  /// A second layer on the weights of `first`.
  ValueId tied_conv(ValueId x, const std::string& name, const std::string& first) {
    for (const Node& other : graph_.nodes)
      if (other.name == first) return node(other.op, name, {x}, other.tensors);
    throw std::logic_error("no such layer");
  }

  std::shared_ptr<GraphModule> build(std::vector<ValueId> outputs) {
    graph_.outputs = std::move(outputs);
    return std::make_shared<GraphModule>(graph_, parameters_, buffers_);
  }

 private:
  ValueId node(Op op, const std::string& name, std::vector<ValueId> inputs, std::vector<std::string> tensors) {
    Node added{.op = std::move(op), .name = name, .inputs = std::move(inputs), .tensors = std::move(tensors)};
    added.output = add_value(graph_, name + ".out", {});
    graph_.values[added.output].shape = infer_shape(graph_, added);
    graph_.nodes.push_back(added);
    return added.output;
  }

  std::string weight(const std::string& name, const std::vector<std::int64_t>& shape) {
    std::int64_t fan_in = 1;
    for (std::size_t i = 1; i < shape.size(); ++i) fan_in *= shape[i];
    const double deviation = 1.0 / std::sqrt(static_cast<double>(fan_in));
    return parameter(name + ".weight", torch::randn(shape, generator_) * deviation);
  }

  std::string bias(const std::string& name, std::int64_t channels) {
    return parameter(name + ".bias", torch::randn({channels}, generator_) * 0.1);
  }

  std::string parameter(const std::string& name, const torch::Tensor& values) {
    parameters_[name] = values.detach().clone().set_requires_grad(true);
    return declare(name, values, DType::f32);
  }

  void buffer(const std::string& name, const torch::Tensor& values, DType dtype = DType::f32) {
    buffers_[name] = values;
    declare(name, values, dtype);
  }

  std::string declare(const std::string& name, const torch::Tensor& values, DType dtype) {
    graph_.tensors[name] = {
        .dtype = dtype, .shape = {values.sizes().begin(), values.sizes().end()}, .bytes = {}, .scales = {}};
    return name;
  }

  at::Generator generator_;
  Graph graph_;
  std::map<std::string, torch::Tensor> parameters_, buffers_;
};

/// conv + batch norm + ReLU + max-pool, twice, then global mean and a linear layer: {channels, length} -> {classes}.
inline std::shared_ptr<GraphModule> small_classifier(std::int64_t channels = 2, std::int64_t length = 16,
                                                     std::int64_t classes = 4, std::uint64_t seed = 1) {
  NetworkBuilder net(seed);
  ValueId x = net.input("input", {channels, length});
  for (const std::string block : {"0", "1"}) {
    x = net.conv(x, "conv" + block, 8, 3, false);
    x = net.batch_norm(x, "norm" + block);
    x = net.relu(x, "relu" + block);
    x = net.apply(MaxPool{.kernel = {2}, .stride = {2}, .pads_begin = {0}, .pads_end = {0}, .dilation = {1}},
                  "pool" + block, {x});
  }
  x = net.apply(GlobalMean{}, "mean", {x});
  return net.build({net.linear(x, "classifier", classes)});
}

/// Bit-for-bit equality, NaN and signs of zero included.
inline bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  const torch::Tensor x = a.detach().contiguous();
  const torch::Tensor y = b.detach().contiguous();
  return std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

}  // namespace podaq::test
