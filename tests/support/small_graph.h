#pragma once

#include <string>
#include <utility>
#include <vector>

#include "podaq/core/text.h"
#include "podaq/graph/graph.h"
#include "podaq/graph/verify.h"
#include "support/random_builder.h"

namespace podaq::test {

/// A small float network written node by node; its convs keep the shape, so that values can be added at will.
struct SmallGraph {
  explicit SmallGraph(Shape input_shape = {4, 9}) : builder(1) {
    graph.inputs.push_back(add_value(graph, "x", std::move(input_shape)));
  }

  [[nodiscard]] ValueId input() const { return graph.inputs[0]; }
  void output(ValueId value) { graph.outputs.push_back(value); }

  ValueId append(Op op, std::vector<ValueId> inputs, std::vector<std::string> tensors = {}) {
    return builder.append(std::move(op), std::move(inputs), std::move(tensors));
  }

  /// A conv of 3 taps per dimension, with as many output as input channels.
  ValueId conv(ValueId value, std::int64_t groups = 1, bool biased = true) {
    const Shape& shape = builder.shape_of(value);
    const std::size_t spatial = shape.size() - 1;
    const std::vector<std::int64_t> ones(spatial, 1);
    Shape weight = {shape[0], shape[0] / groups};
    weight.insert(weight.end(), spatial, 3);
    return append(Conv{.stride = ones,
                       .pads_begin = ones,
                       .pads_end = ones,
                       .dilation = ones,
                       .groups = groups,
                       .adds_input = false,
                       .clamp = {}},
                  {value}, weighted("conv", weight, biased));
  }

  /// A linear layer with as many outputs as inputs.
  ValueId linear(ValueId value, bool biased = true) {
    const std::int64_t size = builder.shape_of(value).back();
    return append(Linear{}, {value}, weighted("linear", {size, size}, biased));
  }

  ValueId batch_norm(ValueId value) {
    const Shape channels = {builder.shape_of(value)[0]};
    const std::string name = concat("batch_norm", graph.nodes.size());
    return append(BatchNorm{}, {value},
                  {builder.float_tensor(name + ".weight", channels, 1.0F, 0.2F),
                   builder.float_tensor(name + ".bias", channels, 0.0F, 0.3F),
                   builder.float_tensor(name + ".running_mean", channels, 0.0F, 0.3F),
                   builder.float_tensor(name + ".running_var", channels, 1.0F, 0.2F), ""});
  }

  std::vector<std::string> weighted(const std::string& kind, const Shape& weight, bool biased) {
    const std::string name = concat(kind, graph.nodes.size());
    return {builder.float_tensor(name + ".weight", weight, 0.0F, 0.3F),
            biased ? builder.float_tensor(name + ".bias", {weight[0]}, 0.0F, 0.3F) : ""};
  }

  GraphBuilder builder;
  Graph& graph = builder.graph;
};

}  // namespace podaq::test
