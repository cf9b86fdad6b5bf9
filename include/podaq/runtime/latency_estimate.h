#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "podaq/graph/graph.h"
#include "podaq/runtime/model.h"

namespace podaq {

/// For what an estimate is made.
struct LatencyEstimateOptions {
  std::size_t batch = 1;                            ///< 1 to 65536: samples that run together.
  Isa isa = selected_isa();                         ///< Which kernels may be used.
  SparseKernels sparse = SparseKernels::automatic;  ///< Whether zero weights may be skipped.
  /// What `podaq tune` measured; empty, missing or of another CPU or version: the coefficients that the library ships.
  std::filesystem::path tuning_file = selected_tuning_file();
};

/// What the cost model says of one node of a graph.
struct NodeLatency {
  std::string node;    ///< The node's name.
  std::string kernel;  ///< The kernel that would compute it; that of its neighbour where that one absorbed it.
  /// Microseconds for each sample of the batch, what it absorbed included; 0 for an absorbed node. None where the model
  /// has no coefficients: float layers, anything below AVX-512, and ops other than conv, linear, max pooling and
  /// quantize.
  std::optional<double> us = {};
};

/// What the cost model says of a network.
struct LatencyEstimate {
  double total_us = 0.0;           ///< The nodes' sum, of one sample; nodes without an estimate add nothing.
  std::vector<NodeLatency> nodes;  ///< One per node of the graph, in execution order.
};

/// The time that a network would take on this CPU's caches with one thread, by the cost model that chooses kernels
/// (docs/design.md §7). Runs and measures nothing: the same graph, options and tuning file give the same numbers.
/// Throws Error(graph) for a graph that does not verify, Error(unsupported) for an instruction set that the CPU lacks
/// and Error(invalid_argument) naming the field for a batch outside its range.
[[nodiscard]] LatencyEstimate estimate_latency(const Graph& graph, const LatencyEstimateOptions& options = {});

}  // namespace podaq
