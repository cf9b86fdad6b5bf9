#include <algorithm>
#include <cmath>
#include <cstdint>

#include "graph/node_access.h"
#include "graph/rules.h"
#include "podaq/numerics/elementwise.h"
#include "podaq/numerics/quantize.h"
#include "podaq/numerics/requantize.h"
#include "podaq/numerics/rounding.h"

namespace podaq::graph_detail {

namespace {

// A node's values, as far as the rules of codes need them.
struct Edges {
  const Graph& graph;
  const Node& node;

  [[nodiscard]] const Value& input(std::size_t index) const { return graph.values[node.inputs[index]]; }
  [[nodiscard]] const Value& output() const { return graph.values[node.output]; }
};

void need_finite_multiplier(const Node& node, float multiplier) {
  if (!std::isfinite(multiplier))
    fail(node, "the scales of its inputs and output are too far apart: a multiplier overflows");
}

void need_dtype(const Node& node, std::string_view what, const Tensor* tensor, DType dtype) {
  if (tensor != nullptr && tensor->dtype != dtype)
    fail(node, concat("the ", what, " is ", name_of(tensor->dtype), " instead of ", name_of(dtype)));
}

void need_float(const Edges& edges) {
  for (std::size_t i = 0; i < edges.node.inputs.size(); ++i)
    if (edges.input(i).qparams)
      fail(edges.node, concat("does not work on codes, but reads '", edges.input(i).name, "'"));
  if (edges.output().qparams) fail(edges.node, "does not work on codes, but its output has quantization parameters");
}

// All inputs and the output are codes, or all are float. True for codes.
bool need_same_kind(const Edges& edges) {
  const bool codes = edges.output().qparams.has_value();
  for (std::size_t i = 0; i < edges.node.inputs.size(); ++i)
    if (edges.input(i).qparams.has_value() != codes)
      fail(edges.node, concat("mixes codes and float: input '", edges.input(i).name, "' is ", codes ? "float" : "codes",
                              ", the output '", edges.output().name, "' is not"));
  return codes;
}

// Ops that change the parameters of each input to the output's.
void check_rescaling(const Edges& edges) {
  if (!need_same_kind(edges)) return;
  for (std::size_t i = 0; i < edges.node.inputs.size(); ++i)
    need_finite_multiplier(
        edges.node, numerics::rescaling_multiplier(edges.input(i).qparams->scale, edges.output().qparams->scale));
}

void check_weighted_codes(const Edges& edges, const Tensor& weight) {
  const Node& node = edges.node;
  const Value& output = edges.output();
  const float input_scale = edges.input(0).qparams->scale;
  for (const float weight_scale : weight.scales) {
    if (!numerics::is_valid_scale(numerics::accumulator_scale(input_scale, weight_scale)))
      fail(node, concat("the product of input scale ", input_scale, " and weight scale ", weight_scale,
                        " is not a valid scale"));
    if (output.qparams)
      need_finite_multiplier(node,
                             numerics::requantization_multiplier(input_scale, weight_scale, output.qparams->scale));
  }
  if (edges.node.inputs.size() < 2) return;
  if (!edges.input(1).qparams) fail(node, "the added input is float, the first input is codes");
  if (output.qparams)
    need_finite_multiplier(node, numerics::rescaling_multiplier(edges.input(1).qparams->scale, output.qparams->scale));
}

// Conv and linear.
void check_weighted(const Edges& edges) {
  const Node& node = edges.node;
  const Tensor& weight = required_tensor(edges.graph, node, 0);
  const bool codes = edges.input(0).qparams.has_value();
  const Tensor* bias = optional_tensor(edges.graph, node, 1);
  if (codes) {
    need_dtype(node, "weight", &weight, DType::s8);
    need_dtype(node, "bias", bias, DType::i32);
    check_weighted_codes(edges, weight);
    return;
  }
  if (weight.dtype != DType::s8) need_dtype(node, "weight", &weight, DType::f32);
  if (bias != nullptr && bias->dtype != DType::s8) need_dtype(node, "bias", bias, DType::f32);
  need_float(edges);
}

// The most elements of whose codes a mean may sum in 32 bits.
constexpr std::int64_t most_averaged = ((std::int64_t{1} << 31) - 1) / 255;

void check_mean(const Edges& edges, std::int64_t largest_count) {
  check_rescaling(edges);
  if (edges.output().qparams && largest_count > most_averaged)
    fail(edges.node, concat("averages ", largest_count, " codes, more than the ", most_averaged, " that 32 bits hold"));
}

// The largest window of an adaptive pooling, at most one element longer than ceil(in / out) in each dimension.
std::int64_t adaptive_count(const Shape& input, const std::vector<std::int64_t>& output_size) {
  std::int64_t count = 1;
  for (std::size_t i = 0; i < output_size.size(); ++i)
    count *= std::min(input[i + 1], input[i + 1] / output_size[i] + 2);
  return count;
}

void check_kind(const Edges& edges, const Conv&) {
  check_weighted(edges);
}
void check_kind(const Edges& edges, const Linear&) {
  check_weighted(edges);
}
void check_kind(const Edges& edges, const Clamp&) {
  check_rescaling(edges);
}
void check_kind(const Edges& edges, const MaxPool&) {
  check_rescaling(edges);
}
void check_kind(const Edges& edges, const GlobalMax&) {
  check_rescaling(edges);
}
void check_kind(const Edges& edges, const Add&) {
  check_rescaling(edges);
}
void check_kind(const Edges& edges, const Concat&) {
  check_rescaling(edges);
}
void check_kind(const Edges& edges, const Affine&) {
  need_same_kind(edges);
}
void check_kind(const Edges& edges, const Activation&) {
  need_same_kind(edges);
}
void check_kind(const Edges& edges, const Softmax&) {
  need_float(edges);
}
void check_kind(const Edges& edges, const Dropout&) {
  need_float(edges);
}

void check_kind(const Edges& edges, const BatchNorm&) {
  need_float(edges);
  for (std::size_t i = 0; i < 4; ++i)
    need_dtype(edges.node, "batch norm's tensor", optional_tensor(edges.graph, edges.node, i), DType::f32);
  need_dtype(edges.node, "num_batches_tracked", optional_tensor(edges.graph, edges.node, 4), DType::i32);
}

void check_kind(const Edges& edges, const AvgPool& pool) {
  check_mean(edges, element_count(pool.kernel));
}

void check_kind(const Edges& edges, const AdaptivePool& pool) {
  check_mean(edges, pool.kind == AdaptivePool::Kind::mean ? adaptive_count(edges.input(0).shape, pool.output_size) : 1);
}

void check_kind(const Edges& edges, const GlobalMean&) {
  check_mean(edges, element_count(edges.input(0).shape) / edges.input(0).shape[0]);
}

void check_kind(const Edges& edges, const Mul&) {
  if (need_same_kind(edges))
    need_finite_multiplier(edges.node,
                           numerics::product_multiplier(edges.input(0).qparams->scale, edges.input(1).qparams->scale,
                                                        edges.output().qparams->scale));
}

void check_kind(const Edges& edges, const Reshape&) {
  if (need_same_kind(edges) && edges.input(0).qparams != edges.output().qparams)
    fail(edges.node, "its input and output have different quantization parameters");
}

void check_kind(const Edges& edges, const Quantize&) {
  if (edges.input(0).qparams || !edges.output().qparams) fail(edges.node, "turns float into codes, not otherwise");
}

void check_kind(const Edges& edges, const Dequantize&) {
  if (!edges.input(0).qparams || edges.output().qparams) fail(edges.node, "turns codes into float, not otherwise");
}

}  // namespace

void check_codes(const Graph& graph, const Node& node) {
  const Edges edges{graph, node};
  std::visit([&](const auto& op) { check_kind(edges, op); }, node.op);
}

}  // namespace podaq::graph_detail
