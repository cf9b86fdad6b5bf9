#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/cost_model.h"
#include "runtime/kernel.h"

namespace podaq::runtime_detail {

/// How each value of a graph lies in memory and which kernel computes each node.
struct KernelChoices {
  std::vector<Layout> layouts;                ///< One per value.
  std::vector<const Kernel*> kernels;         ///< One per node.
  std::vector<std::string> reasons;           ///< One per node: why it got its kernel.
  std::vector<std::optional<Packed>> packed;  ///< One per node: what its kernel packed, where the choice needed that.
};

/// Chooses both for a verified graph. With AVX2 all codes lie channels last. With AVX-512, a convolution of codes runs
/// dense, channels last, or sparse, planar; values between layers that keep a layout share theirs, and a dense one
/// absorbs the quantize before it and the max pooling after it. The assignment with the least estimated time of the
/// whole graph, changes of layout included, is looked for from all dense and from all sparse; all dense wins a tie.
[[nodiscard]] KernelChoices choose_kernels(const Graph& graph, Isa isa, SparseKernels sparse,
                                           const CostCoefficients& cost = {});

}  // namespace podaq::runtime_detail
