#include <cmath>
#include <utility>

#include "podaq/core/text.h"
#include "podaq/graph/verify.h"
#include "podaq/numerics/choose_qparams.h"
#include "podaq/numerics/quantize.h"
#include "support/random_builder.h"
#include "support/random_graph.h"
#include "support/random_ops.h"

namespace podaq::test {

namespace {

constexpr std::int64_t most_elements = 6000;

struct IntegerGraphBuilder : GraphBuilder {
  using GraphBuilder::GraphBuilder;

  std::vector<ValueId> codes;   ///< Values of codes.
  std::vector<ValueId> floats;  ///< Float values other than the graph's inputs.

  [[nodiscard]] const QParams& qparams_of(ValueId value) const { return *graph.values[value].qparams; }

  QParams random_qparams(float scale) {
    const int bits = draws.chance(0.8) ? 8 : static_cast<int>(draws.integer(2, 7));
    QParams q{.scale = scale, .zero_point = 0, .lowest = 0, .highest = (1 << bits) - 1};
    q.scale *= 255.0F / static_cast<float>(q.highest);
    if (draws.chance(0.7)) q.zero_point = static_cast<std::int32_t>(draws.integer(0, q.highest));
    return q;
  }

  QParams near(ValueId value) { return random_qparams(qparams_of(value).scale * draws.real(0.5F, 1.5F)); }
};

std::string add_weight_codes(IntegerGraphBuilder& builder, const std::string& name, const Shape& shape) {
  Draws& draws = builder.draws;
  Tensor weight{.dtype = DType::s8, .shape = shape, .bytes = {}, .scales = {}};
  weight.bits = draws.chance(0.75) ? 8 : static_cast<int>(draws.integer(2, 7));
  const int limit = numerics::weight_code_limit(weight.bits);
  const auto count = static_cast<std::size_t>(element_count(shape));
  const auto channels = static_cast<std::size_t>(shape[0]);
  weight.bytes.resize(count);
  const double density = draws.chance(0.5) ? 1.0 : draws.real(0.02F, 0.6F);
  const std::size_t dead_channel = draws.chance(0.3) ? static_cast<std::size_t>(draws.integer(0, shape[0] - 1)) : count;
  for (std::size_t i = 0; i < count; ++i)
    if (i / (count / channels) != dead_channel && draws.chance(density))
      elements<std::int8_t>(weight)[i] = static_cast<std::int8_t>(draws.integer(-limit, limit));
  weight.scales.resize(draws.chance(0.2) ? 1 : channels);
  for (float& scale : weight.scales) scale = draws.real(0.5F, 2.0F) / static_cast<float>(limit);
  builder.graph.tensors[name] = std::move(weight);
  return name;
}

std::string add_bias_codes(IntegerGraphBuilder& builder, const std::string& name, const Tensor& weight,
                           float input_scale) {
  std::vector<std::int32_t> codes(static_cast<std::size_t>(weight.shape[0]));
  for (std::size_t i = 0; i < codes.size(); ++i)
    codes[i] = numerics::quantize_bias(
        builder.draws.real(-0.5F, 0.5F),
        numerics::accumulator_scale(input_scale, weight.scales[weight.scales.size() == 1 ? 0 : i]));
  builder.graph.tensors[name] = make_tensor<std::int32_t>(DType::i32, {weight.shape[0]}, codes);
  return name;
}

void append_weighted(IntegerGraphBuilder& builder, ValueId input) {
  Draws& draws = builder.draws;
  const bool keeps_shape = draws.chance(0.45);
  std::optional<WeightedOp> drawn;
  if (draws.chance(0.8)) drawn = random_conv(draws, builder.shape_of(input), keeps_shape);
  if (!drawn) drawn = random_linear(draws, builder.shape_of(input), keeps_shape);
  const std::string prefix = concat("layer", builder.graph.nodes.size());
  Node node{.op = drawn->op, .name = prefix, .inputs = {input}, .tensors = {}};
  node.tensors = {add_weight_codes(builder, prefix + ".weight", drawn->weight), ""};
  const Tensor& weight = builder.graph.tensors.at(node.tensors[0]);
  const float input_scale = builder.qparams_of(input).scale;
  if (draws.chance(0.7)) node.tensors[1] = add_bias_codes(builder, prefix + ".bias", weight, input_scale);
  const Shape output = infer_shape(builder.graph, node);
  if (element_count(output) > most_elements) {
    for (const std::string& tensor : node.tensors) builder.graph.tensors.erase(tensor);
    return;
  }
  const auto residual = builder.pick_of_shape(builder.codes, output, input);
  const bool adds_input = residual.has_value() && draws.chance(0.5);
  std::visit(
      [&](auto& op) {
        if constexpr (requires { op.adds_input; }) {
          op.adds_input = adds_input;
          if (draws.chance(0.5)) op.clamp = random_clamp(draws);
        }
      },
      node.op);
  if (adds_input) node.inputs.push_back(*residual);
  std::optional<QParams> qparams;
  if (draws.chance(0.85)) {
    const auto fan_in = static_cast<float>(element_count(weight.shape) / weight.shape[0]);
    qparams = builder.random_qparams(input_scale * std::sqrt(fan_in) * draws.real(0.2F, 1.5F));
  }
  const int copies = draws.chance(0.1) ? 2 : 1;
  for (int i = 0; i < copies; ++i)
    (qparams ? builder.codes : builder.floats).push_back(builder.append(node.op, node.inputs, node.tensors, qparams));
}

void append_joining(IntegerGraphBuilder& builder, ValueId input) {
  Draws& draws = builder.draws;
  const ValueId other = builder.pick_of_shape(builder.codes, builder.shape_of(input), input).value_or(input);
  const float larger = std::max(builder.qparams_of(input).scale, builder.qparams_of(other).scale);
  const auto choice = draws.integer(0, 3);
  if (choice == 0) {
    const float scale = builder.qparams_of(input).scale * builder.qparams_of(other).scale * draws.real(20.0F, 150.0F);
    builder.codes.push_back(builder.append(Mul{}, {input, other}, {}, builder.random_qparams(scale)));
  } else if (choice == 1) {
    const auto rank = static_cast<std::int64_t>(builder.shape_of(input).size());
    std::vector<ValueId> inputs = {input, other};
    if (draws.chance(0.3)) inputs.push_back(input);
    const QParams q = draws.chance(0.5) ? builder.qparams_of(input) : builder.random_qparams(larger);
    builder.codes.push_back(builder.append(Concat{.axis = draws.integer(0, rank - 1)}, inputs, {}, q));
  } else {
    Add add;
    if (draws.chance(0.4)) add.clamp = random_clamp(draws);
    const QParams q = builder.random_qparams(larger * draws.real(0.5F, 2.0F));
    builder.codes.push_back(builder.append(add, {input, other}, {}, q));
  }
}

void append_pool(IntegerGraphBuilder& builder, ValueId input) {
  const auto pool = random_pool(builder.draws, builder.shape_of(input));
  if (!pool) return;
  const QParams q = builder.draws.chance(0.5) ? builder.qparams_of(input) : builder.near(input);
  builder.codes.push_back(builder.append(*pool, {input}, {}, q));
}

void append_simple(IntegerGraphBuilder& builder, ValueId input) {
  Draws& draws = builder.draws;
  switch (draws.integer(0, 4)) {
    case 0:
      builder.codes.push_back(
          builder.append(random_reshape(draws, builder.shape_of(input)), {input}, {}, builder.qparams_of(input)));
      break;
    case 1: {
      const Affine affine{.factor = draws.real(-2.0F, 2.0F), .offset = draws.real(-1.0F, 1.0F)};
      builder.codes.push_back(builder.append(affine, {input}, {}, builder.near(input)));
      break;
    }
    case 2: {
      const QParams q = draws.chance(0.5) ? builder.qparams_of(input) : builder.near(input);
      builder.codes.push_back(builder.append(random_clamp(draws), {input}, {}, q));
      break;
    }
    default:
      builder.codes.push_back(
          builder.append(random_activation(draws), {input}, {}, builder.random_qparams(draws.real(0.004F, 0.02F))));
  }
}

// Leaves the codes and comes back by way of float ops.
void append_float_detour(IntegerGraphBuilder& builder, ValueId input) {
  Draws& draws = builder.draws;
  const auto rank = static_cast<std::int64_t>(builder.shape_of(input).size());
  ValueId value = builder.append(Dequantize{}, {input});
  value = builder.append(Softmax{.axis = draws.integer(0, rank - 1), .logarithm = draws.chance(0.5)}, {value});
  if (draws.chance(0.5))
    builder.codes.push_back(builder.append(Quantize{}, {value}, {}, builder.random_qparams(0.01F)));
  else
    builder.floats.push_back(value);
}

void append_node(IntegerGraphBuilder& builder) {
  const ValueId input = builder.pick(builder.codes);
  if (element_count(builder.shape_of(input)) > most_elements / 3) {
    append_pool(builder, input);
    return;
  }
  const auto choice = builder.draws.integer(0, 13);
  if (choice < 6)
    append_weighted(builder, input);
  else if (choice < 8)
    append_joining(builder, input);
  else if (choice < 10)
    append_pool(builder, input);
  else if (choice < 13)
    append_simple(builder, input);
  else
    append_float_detour(builder, input);
}

}  // namespace

Graph random_integer_graph(std::uint64_t seed) {
  IntegerGraphBuilder builder(seed);
  for (std::int64_t i = builder.draws.integer(1, 2); i > 0; --i) {
    const ValueId input = add_value(builder.graph, concat("input", i), random_input_shape(builder.draws));
    builder.graph.inputs.push_back(input);
    builder.codes.push_back(
        builder.append(Quantize{}, {input}, {}, builder.random_qparams(builder.draws.real(0.005F, 0.03F))));
  }
  for (std::int64_t steps = builder.draws.integer(2, 14); steps > 0; --steps) append_node(builder);
  const auto readers = reader_counts(builder.graph);
  for (const ValueId value : builder.codes)
    if (readers[value] == 0) builder.floats.push_back(builder.append(Dequantize{}, {value}));
  for (const ValueId value : builder.floats) builder.graph.outputs.push_back(value);
  builder.graph.metadata = {{"classes", "æ,b,c"}, {"producer", concat("random integer graph ", seed)}};
  return std::move(builder.graph);
}

}  // namespace podaq::test
