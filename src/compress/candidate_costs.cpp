#include "compress/candidate_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <variant>

#include "compress/auto_recipe.h"
#include "podaq/core/cancellation.h"
#include "podaq/core/error.h"
#include "podaq/format/file.h"
#include "podaq/format/size_estimate.h"
#include "podaq/runtime/latency_estimate.h"

namespace podaq::compress_detail {
namespace {

// Of each conv and linear of a converted graph, by name.
struct NodeCosts {
  std::map<std::string, double> bytes;
  std::map<std::string, double> us;  // empty where none are asked for
};

LatencyEstimate latency_of(const Graph& graph, const AutoRecipe& search) {
  return estimate_latency(graph, {.batch = static_cast<std::size_t>(search.batch)});
}

NodeCosts costs_of(const Graph& graph, const AutoRecipe& search) {
  NodeCosts costs;
  for (const Node& node : graph.nodes)
    for (const std::string& tensor : node.tensors)
      if (has_weights(node.op) && !tensor.empty())
        costs.bytes[node.name] += estimate_stored_bytes(tensor_at(graph, tensor));
  if (!search.budget_us) return costs;
  const LatencyEstimate estimate = latency_of(graph, search);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!has_weights(graph.nodes[i].op)) continue;
    const NodeLatency& node = estimate.nodes[i];
    if (!node.us)
      throw Error(ErrorCode::unsupported,
                  fmt::format("auto.budget_us: the cost model has no estimate for layer '{}' by kernel {}; it knows "
                              "layers on codes on CPUs with AVX-512 VNNI: give auto.budget_bytes instead",
                              node.node, node.kernel));
    costs.us[node.node] = *node.us;
  }
  return costs;
}

double sum_of(const std::map<std::string, double>& costs, const GraphModule& model, const SearchedLayer& searched) {
  double sum = 0.0;
  for (const std::size_t step : searched.steps) {
    const auto found = costs.find(model.graph().nodes[model.steps()[step].node].name);
    if (found != costs.end()) sum += found->second;  // a layer may have died and gone
  }
  return sum;
}

}  // namespace

void add_costs(SensitivityReport& report, TrialNetwork& trial, const Recipe& recipe) {
  const AutoRecipe search = recipe.automatic.value_or(AutoRecipe{});
  for (const double sparsity : searched_sparsities(recipe))
    for (const int bits : searched_bits(recipe)) {
      throw_if_cancelled();
      const std::vector<LayerCandidate> alike = trial.all_alike({.sparsity = sparsity, .weight_bits = bits});
      const NodeCosts costs = costs_of(trial.converted(alike), search);
      for (std::size_t i = 0; i < alike.size(); ++i)
        for (CandidateEffect& effect : report.layers[i].candidates) {
          if (effect.candidate != alike[i]) continue;
          effect.bytes = sum_of(costs.bytes, trial.model(), trial.layers()[i]);
          if (search.budget_us) effect.us = sum_of(costs.us, trial.model(), trial.layers()[i]);
        }
    }
}

double cost_of(const Graph& graph, const AutoRecipe& search) {
  return search.budget_us ? latency_of(graph, search).total_us : static_cast<double>(encode(graph).size());
}

}  // namespace podaq::compress_detail
