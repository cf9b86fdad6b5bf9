#include "support/random_builder.h"

#include <utility>

#include "podaq/core/text.h"
#include "podaq/graph/verify.h"

namespace podaq::test {

ValueId GraphBuilder::append(Op op, std::vector<ValueId> inputs, std::vector<std::string> tensors,
                             std::optional<QParams> qparams) {
  const std::string name = concat(name_of(op), graph.nodes.size());
  Node node{.op = std::move(op), .name = name, .inputs = std::move(inputs), .tensors = std::move(tensors)};
  node.output = add_value(graph, concat(name, ".out"), infer_shape(graph, node), qparams);
  graph.nodes.push_back(std::move(node));
  return graph.nodes.back().output;
}

std::string GraphBuilder::float_tensor(const std::string& name, Shape shape, float mean, float deviation) {
  std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
  for (float& value : values) {
    float sum = 0.0F;
    for (int i = 0; i < 4; ++i) sum += draws.real(-1.0F, 1.0F);
    value = mean + deviation * sum;
  }
  graph.tensors[name] = make_tensor<float>(DType::f32, std::move(shape), values);
  return name;
}

ValueId GraphBuilder::pick(const std::vector<ValueId>& among) {
  if (draws.chance(0.6)) return among.back();
  return among[static_cast<std::size_t>(draws.integer(0, static_cast<std::int64_t>(among.size()) - 1))];
}

std::optional<ValueId> GraphBuilder::pick_of_shape(const std::vector<ValueId>& among, const Shape& shape,
                                                   ValueId except) {
  std::vector<ValueId> fitting;
  for (const ValueId value : among)
    if (shape_of(value) == shape && value != except) fitting.push_back(value);
  if (fitting.empty() && shape_of(except) == shape) fitting.push_back(except);
  if (fitting.empty()) return std::nullopt;
  return pick(fitting);
}

}  // namespace podaq::test
