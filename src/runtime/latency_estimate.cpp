#include "podaq/runtime/latency_estimate.h"

#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "runtime/cost_model.h"
#include "runtime/kernels/depthwise_conv.h"
#include "runtime/kernels/registry.h"
#include "runtime/linear_choice.h"
#include "runtime/plan.h"
#include "runtime/tuning_file.h"
#include "runtime/window.h"

namespace podaq {
namespace {

using namespace runtime_detail;

// A linear on codes; per sample.
std::optional<double> linear_ns(const Plan& plan, const PlanNode& node, const Shape& weight, std::size_t batch) {
  const auto outputs = static_cast<std::size_t>(weight.at(0));
  const auto inputs = static_cast<std::size_t>(weight.at(1));
  const bool weights_stay = weights_stay_cached(plan.weight_bytes);
  const auto dense = [&](bool uses_tiles) {
    return dense_linear_ns(inputs, outputs, batch, uses_tiles, weights_stay, {}) / static_cast<double>(batch);
  };
  if (node.kernel == &avx512::quad_linear) return dense(false);
  if (node.kernel == &amx::tile_linear) return dense(true);
  if (node.kernel != &avx512::sparse_linear) return std::nullopt;
  const auto& sparse = std::get<SparseLinear>(node.packed);
  if (batch > sparse.most_samples) return dense(!sparse.dense->chunk_offsets.empty());
  return sparse_linear_ns(sparse.starts.size(), outputs, batch, weights_stay, {}) / static_cast<double>(batch);
}

std::optional<double> estimated_ns(const Graph& graph, const Plan& plan, const PlanNode& node, std::size_t batch,
                                   const CostCoefficients& cost) {
  const Node& source = graph.nodes[node.graph_node];
  if (std::holds_alternative<Linear>(source.op))
    return linear_ns(plan, node, tensor_at(graph, source.tensors.at(0)).shape, batch);
  if (node.kernel == &avx512::depthwise_conv) return depthwise_conv_ns(geometry_of(graph, source));
  return node_ns(node, batch, cost);
}

}  // namespace

LatencyEstimate estimate_latency(const Graph& graph, const LatencyEstimateOptions& options) {
  constexpr std::size_t largest_batch = 65536;
  if (options.batch < 1 || options.batch > largest_batch)
    throw Error(ErrorCode::invalid_argument,
                concat("estimate_latency: batch is ", options.batch, ", must lie in [1, ", largest_batch, "]"));
  const CostCoefficients cost = read_tuning(options.tuning_file);
  const Plan plan = build_plan(graph, options.isa, options.sparse, cost);
  LatencyEstimate estimate;
  for (const KernelChoice& choice : plan.choices)
    estimate.nodes.push_back({.node = choice.node, .kernel = choice.kernel, .us = 0.0});
  for (const PlanNode& node : plan.nodes) {
    std::optional<double>& us = estimate.nodes[node.graph_node].us;
    us = estimated_ns(graph, plan, node, options.batch, cost);
    if (us) estimate.total_us += * us /= 1000.0;
  }
  return estimate;
}

}  // namespace podaq
