#include "runtime/tuning_networks.h"

#include <cstdint>
#include <string>
#include <utility>

#include "runtime/synthetic_network.h"

namespace podaq::runtime_detail {

namespace {

// Convolutions of the given widths, a pooling after every `convs_per_pool` of them.
Graph stack(const Shape& input, const std::vector<std::int64_t>& widths, std::int64_t kernel,
            std::size_t convs_per_pool) {
  NetworkBuilder net(input);
  for (std::size_t i = 0; i < widths.size(); ++i) {
    net.conv(widths[i], kernel);
    if ((i + 1) % convs_per_pool == 0) net.max_pool();
  }
  net.flatten();
  net.linear(8, true);
  return net.finish();
}

// Residual units of one width.
Graph residual_stack(const Shape& input, std::int64_t width, int units, int pools) {
  NetworkBuilder net(input);
  for (int pool = 0; pool < pools; ++pool) {
    net.conv(width, 1, false);
    for (int unit = 0; unit < units; ++unit) {
      const ValueId skipped = net.last;
      net.conv(width, 3);
      net.conv(width, 3, true, skipped);
    }
    net.max_pool();
  }
  net.flatten();
  net.linear(8, true);
  return net.finish();
}

std::vector<Graph> networks() {
  std::vector<Graph> graphs;
  graphs.push_back(stack({2, 1024}, {64, 64, 64, 64, 64, 64, 64}, 3, 1));
  graphs.push_back(stack({2, 256}, {16, 32, 64, 128, 256, 128}, 3, 2));
  graphs.push_back(stack({32, 100}, {48, 96, 64, 256}, 1, 2));
  graphs.push_back(residual_stack({2, 512}, 32, 2, 4));
  graphs.push_back(stack({3, 32, 32}, {32, 32, 64, 64, 128, 128}, 3, 2));
  graphs.push_back(stack({1, 28, 28}, {32, 32, 64, 64, 128, 128}, 3, 2));
  graphs.push_back(stack({16, 16, 16}, {64, 128, 256, 256}, 3, 1));
  graphs.push_back(stack({64, 14, 14}, {128, 64, 256, 128, 256}, 1, 2));
  graphs.push_back(residual_stack({3, 16, 16}, 64, 1, 3));
  graphs.push_back(stack({5, 9, 11}, {20, 24, 40}, 3, 2));
  return graphs;
}

// Every second convolution keeps all of its weights.
Graph prune_every_second(const Graph& graph, double sparsity) {
  Graph pruned = prune(graph, sparsity);
  bool keeps = false;
  for (const Node& node : graph.nodes) {
    if (!std::holds_alternative<Conv>(node.op)) continue;
    if (keeps) pruned.tensors[node.tensors[0]] = graph.tensors.at(node.tensors[0]);
    keeps = !keeps;
  }
  return pruned;
}

}  // namespace

std::vector<Plan> tuning_plans(Isa isa, std::size_t batch) {
  struct Pattern {
    double sparsity;
    std::int64_t channels;
  };
  constexpr Pattern patterns[] = {{0.5, 1}, {0.8, 1}, {0.9, 1}, {0.95, 1}, {0.8, 4}, {0.9, 4}, {0.95, 4}};
  CostCoefficients free_transposes;
  free_transposes.transpose = 0.0;
  std::vector<Plan> plans;
  for (const Graph& graph : networks()) {
    for (const Isa dense : {Isa::avx512, Isa::amx})
      if (dense <= isa) plans.push_back(build_plan(graph, dense, SparseKernels::never));
    for (const auto& [sparsity, channels] : patterns)
      if (batch == 1 || sparsity == 0.9)
        plans.push_back(build_plan(prune(graph, sparsity, channels), isa, SparseKernels::always));
    plans.push_back(
        build_plan(prune_every_second(graph, 0.95), Isa::avx512, SparseKernels::automatic, free_transposes));
  }
  return plans;
}

}  // namespace podaq::runtime_detail
