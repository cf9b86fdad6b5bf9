#include "support/random_graph.h"

#include <cmath>
#include <utility>

#include "podaq/core/text.h"
#include "podaq/graph/verify.h"
#include "support/random_builder.h"
#include "support/random_ops.h"

namespace podaq::test {

namespace {

// Keeps random graphs small enough to run hundreds of them.
constexpr std::int64_t most_elements = 6000;

bool small_enough(const GraphBuilder& builder, const Node& node) {
  const std::int64_t count = element_count(infer_shape(builder.graph, node));
  return count >= 1 && count <= most_elements;
}

void append_weighted(GraphBuilder& builder, std::vector<ValueId>& values, ValueId input) {
  Draws& draws = builder.draws;
  const Shape& shape = builder.shape_of(input);
  const bool keeps_shape = draws.chance(0.4);
  std::optional<WeightedOp> drawn;
  if (draws.chance(0.75)) drawn = random_conv(draws, shape, keeps_shape);
  if (!drawn) drawn = random_linear(draws, shape, keeps_shape);
  const std::string prefix = concat("layer", builder.graph.nodes.size());
  const std::int64_t channels = drawn->weight[0];
  const auto fan_in = static_cast<float>(element_count(drawn->weight) / channels);
  Node node{.op = drawn->op, .name = prefix, .inputs = {input}, .tensors = {}};
  node.tensors = {builder.float_tensor(prefix + ".weight", drawn->weight, 0.0F, 1.0F / std::sqrt(fan_in)), ""};
  if (draws.chance(0.7)) node.tensors[1] = builder.float_tensor(prefix + ".bias", {channels}, 0.0F, 0.3F);
  if (!small_enough(builder, node)) return;
  const auto residual = builder.pick_of_shape(values, infer_shape(builder.graph, node), input);
  const bool adds_input = residual.has_value() && draws.chance(0.3);
  const bool tied = draws.chance(0.1);
  std::visit(
      [&](auto& op) {
        if constexpr (requires { op.adds_input; }) {
          op.adds_input = adds_input;
          if (draws.chance(0.3)) op.clamp = random_clamp(draws);
        }
      },
      node.op);
  if (adds_input) node.inputs.push_back(*residual);
  values.push_back(builder.append(node.op, node.inputs, node.tensors));
  if (tied) values.push_back(builder.append(node.op, node.inputs, node.tensors));
}

void append_batch_norm(GraphBuilder& builder, std::vector<ValueId>& values, ValueId input) {
  const std::string prefix = concat("norm", builder.graph.nodes.size());
  const Shape channels = {builder.shape_of(input)[0]};
  std::vector<std::string> tensors(5);
  if (builder.draws.chance(0.8)) {
    tensors[0] = builder.float_tensor(prefix + ".weight", channels, 1.0F, 0.3F);
    tensors[1] = builder.float_tensor(prefix + ".bias", channels, 0.0F, 0.3F);
  }
  tensors[2] = builder.float_tensor(prefix + ".running_mean", channels, 0.0F, 0.3F);
  tensors[3] = builder.float_tensor(prefix + ".running_var", channels, 1.0F, 0.2F);
  values.push_back(builder.append(BatchNorm{}, {input}, tensors));
}

void append_joining(GraphBuilder& builder, std::vector<ValueId>& values, ValueId input) {
  const ValueId other = builder.pick_of_shape(values, builder.shape_of(input), input).value_or(input);
  Draws& draws = builder.draws;
  switch (draws.integer(0, 3)) {
    case 0:
      values.push_back(builder.append(Mul{}, {input, other}));
      break;
    case 1: {
      const auto rank = static_cast<std::int64_t>(builder.shape_of(input).size());
      std::vector<ValueId> inputs = {input, other};
      if (draws.chance(0.3)) inputs.push_back(input);
      values.push_back(builder.append(Concat{.axis = draws.integer(0, rank - 1)}, inputs));
      break;
    }
    default:
      values.push_back(builder.append(Add{.clamp = {}}, {input, other}));
  }
}

void append_simple(GraphBuilder& builder, std::vector<ValueId>& values, ValueId input) {
  Draws& draws = builder.draws;
  const Shape& shape = builder.shape_of(input);
  const auto rank = static_cast<std::int64_t>(shape.size());
  Op op = random_clamp(draws);
  switch (draws.integer(0, 8)) {
    case 0:
      op = Softmax{.axis = draws.integer(0, rank - 1), .logarithm = draws.chance(0.5)};
      break;
    case 1:
      op = Affine{.factor = draws.real(-2.0F, 2.0F), .offset = draws.real(-1.0F, 1.0F)};
      break;
    case 2:
      op = random_reshape(draws, shape);
      break;
    case 3:
      op = Dropout{.p = 0.3, .channels = draws.chance(0.5)};
      break;
    case 4:
    case 5:
      op = random_activation(draws);
      break;
    default:
      break;
  }
  values.push_back(builder.append(std::move(op), {input}));
}

void append_float_node(GraphBuilder& builder, std::vector<ValueId>& values) {
  const ValueId input = builder.pick(values);
  if (element_count(builder.shape_of(input)) > most_elements / 3) {
    values.push_back(builder.append(random_pool(builder.draws, builder.shape_of(input)).value_or(Clamp{}), {input}));
    return;
  }
  const auto choice = builder.draws.integer(0, 13);
  if (choice < 5) {
    append_weighted(builder, values, input);
  } else if (choice == 5) {
    append_batch_norm(builder, values, input);
  } else if (choice < 8) {
    append_joining(builder, values, input);
  } else if (choice < 10) {
    if (const auto pool = random_pool(builder.draws, builder.shape_of(input)))
      values.push_back(builder.append(*pool, {input}));
  } else {
    append_simple(builder, values, input);
  }
}

}  // namespace

Graph random_float_graph(std::uint64_t seed) {
  GraphBuilder builder(seed);
  std::vector<ValueId> values;
  for (std::int64_t i = builder.draws.integer(1, 2); i > 0; --i) {
    values.push_back(add_value(builder.graph, concat("input", i), random_input_shape(builder.draws)));
    builder.graph.inputs.push_back(values.back());
  }
  const std::size_t inputs = values.size();
  append_weighted(builder, values, values.back());
  if (values.size() == inputs) values.push_back(builder.append(Clamp{}, {values.back()}));
  for (std::int64_t steps = builder.draws.integer(2, 14); steps > 0; --steps) append_float_node(builder, values);
  const auto readers = reader_counts(builder.graph);
  for (std::size_t i = inputs; i < values.size(); ++i)
    if (readers[values[i]] == 0 || builder.draws.chance(0.05)) builder.graph.outputs.push_back(values[i]);
  builder.graph.metadata = {{"classes", "æ,b,c"}, {"producer", concat("random float graph ", seed)}};
  return std::move(builder.graph);
}

Graph with_weight_codes(const Graph& graph, Draws& draws) {
  Graph result = graph;
  for (const Node& node : graph.nodes) {
    if (!has_weights(node.op)) continue;
    if (graph.values[node.inputs[0]].qparams) continue;
    for (const std::string& name : node.tensors) {
      if (name.empty() || draws.chance(0.5)) continue;
      Tensor& tensor = result.tensors.at(name);
      if (tensor.dtype != DType::f32) continue;  // shared, and done
      Tensor codes{.dtype = DType::s8, .shape = tensor.shape, .bytes = {}, .scales = {}};
      codes.bits = static_cast<int>(draws.integer(2, 8));
      const std::int64_t limit = (1 << (codes.bits - 1)) - 1;
      const std::int64_t scales = draws.chance(0.5) ? 1 : tensor.shape[0];
      for (std::int64_t i = 0; i < scales; ++i) codes.scales.push_back(draws.real(0.001F, 0.01F));
      for (std::int64_t i = 0; i < element_count(tensor.shape); ++i)
        codes.bytes.push_back(static_cast<std::byte>(draws.integer(-limit, limit)));
      tensor = std::move(codes);
    }
  }
  return result;
}

Graph without_weight_codes(const Graph& graph) {
  Graph result = graph;
  for (const Node& node : graph.nodes) {
    if (graph.values[node.inputs[0]].qparams) continue;
    for (const std::string& name : node.tensors) {
      if (name.empty() || result.tensors.at(name).dtype != DType::s8) continue;
      const Tensor& codes = graph.tensors.at(name);
      result.tensors[name] = make_tensor<float>(DType::f32, codes.shape, numbers_of(codes));
    }
  }
  return result;
}

}  // namespace podaq::test
