#include "runtime/explanation.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "podaq/core/cancellation.h"
#include "runtime/cost_model.h"
#include "runtime/isa.h"
#include "runtime/kernels/peak.h"
#include "runtime/node_timing.h"
#include "runtime/tuning_file.h"

namespace podaq::runtime_detail {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The fastest of many short loops: what the machine does when nothing else disturbs it.
double measure_peak(std::uint64_t (*multiply)(std::size_t)) {
  constexpr int loops = 101;
  constexpr std::size_t rounds = 10000;
  double best = 0.0;
  for (int loop = 0; loop < loops; ++loop) {
    const auto start = Clock::now();
    const auto products = static_cast<double>(multiply(rounds));
    best = std::max(best, products / seconds_since(start) * 1e-9);
  }
  return best;
}

double peak_gmacs(Isa isa) {
  if (is_usable(Isa::amx, isa)) return measure_peak(amx::multiply_at_peak);
  if (is_usable(Isa::avx512, isa)) return measure_peak(avx512::multiply_at_peak);
  return 0.0;
}

double share_of_nonzeros(const Tensor& weight) {
  const std::int64_t count = element_count(weight.shape);
  if (count == 0) return 1.0;
  return 1.0 - static_cast<double>(count - count_nonzeros(weight)) / static_cast<double>(count);
}

void count_multiplications(const Graph& graph, const Node& node, std::size_t batch, LayerExplanation& layer) {
  const std::size_t macs = macs_of(graph, node);
  if (macs == 0) return;
  layer.multiplications = static_cast<double>(batch) * static_cast<double>(macs);
  layer.nonzero = share_of_nonzeros(tensor_at(graph, node.tensors[0]));
}

}  // namespace

Explanation explain(const Graph& graph, const ModelOptions& model, const ExplanationOptions& options) {
  const CostCoefficients cost = read_tuning(model.tuning_file);
  NodeRunner runner(build_plan(graph, model.isa, model.sparse, cost), options.batch);
  NodeTimer timer(runner);
  runner.run_all();
  const auto start = Clock::now();
  do {
    throw_if_cancelled();
    timer.run_round();
  } while (seconds_since(start) < options.seconds);
  Explanation explanation{.layers = {}, .peak_gmacs = peak_gmacs(model.isa)};
  for (std::size_t index = 0; index < graph.nodes.size(); ++index) {
    LayerExplanation& layer = explanation.layers.emplace_back();
    layer.choice = runner.plan().choices[index];
    count_multiplications(graph, graph.nodes[index], options.batch, layer);
  }
  const std::vector<double> times = timer.medians();
  for (std::size_t i = 0; i < times.size(); ++i) {
    const PlanNode& node = runner.plan().nodes[i];
    LayerExplanation& layer = explanation.layers[node.graph_node];
    layer.us = times[i] / 1000.0;
    layer.estimated_us = node_ns(node, options.batch, cost).value_or(0.0) * static_cast<double>(options.batch) / 1000.0;
    explanation.us += layer.us;
  }
  return explanation;
}

}  // namespace podaq::runtime_detail
