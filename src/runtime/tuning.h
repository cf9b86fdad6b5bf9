#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "podaq/runtime/tuning.h"
#include "runtime/cost_coefficients.h"
#include "runtime/plan.h"

namespace podaq::runtime_detail {

/// What a node does for one sample of a batch, counted in the items of `named_coefficients`, and the time that it took.
struct NodeSample {
  std::string_view kernel;
  std::vector<double> work;
  double ns = 0.0;
};

/// What the cost model says that a node of a plan does for one sample of a batch: its estimate is the sum of these
/// counts times the coefficients. Empty for kernels that it does not know.
[[nodiscard]] std::vector<double> work_of(const PlanNode& node, std::size_t batch);

/// The coefficients whose estimates lie nearest to the samples' times, relatively; those that no sample touches keep
/// their defaults.
[[nodiscard]] CostCoefficients fit_costs(std::span<const NodeSample> samples);

/// How well the coefficients meet the samples, by kernel.
[[nodiscard]] std::vector<TuningFit> fits_of(std::span<const NodeSample> samples, const CostCoefficients& cost);

/// Measures networks that use every kernel the cost model knows, as far as `isa` has it.
[[nodiscard]] std::vector<NodeSample> measure_nodes(Isa isa, const TuningOptions& options);

}  // namespace podaq::runtime_detail
