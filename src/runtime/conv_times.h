#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <optional>

#include "runtime/cost_model.h"
#include "runtime/kernel.h"
#include "runtime/neighbours.h"

namespace podaq::runtime_detail {

/// The batches that choices consider: some networks run one sample at a time, others many.
inline constexpr std::array<std::size_t, 2> considered_batches = {1, 64};

/// Times per sample, in ns, one for each of the considered batches.
using BatchTimes = std::array<double, considered_batches.size()>;

/// time_of(batch) for each of the considered batches.
template <typename TimeOf>
[[nodiscard]] BatchTimes at_batches(TimeOf time_of) {
  BatchTimes times{};
  for (std::size_t i = 0; i < times.size(); ++i) times[i] = time_of(considered_batches[i]);
  return times;
}

/// The times of a kernel that cannot compute a node.
inline constexpr BatchTimes never = {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};

/// What the dense kernel of a convolution takes without transposing its input.
struct DenseTimes {
  BatchTimes of_codes = never,
             of_floats = never;  ///< By what it reads: floats where it absorbs the quantize before it.
};

/// What a convolution of codes takes by each kernel.
struct ConvTimes {
  DenseTimes dense, dense_planar_residual;  ///< By the layout of the second operand; the latter transposes it.
  BatchTimes sparse = never;                ///< Without transposing operands.
  std::optional<std::size_t> quantize;      ///< The node that the dense kernel absorbs before it,
  std::optional<std::size_t> pool;          ///< and the one after it.
  double zeros = 0.0;                       ///< Share of the weights.
  std::optional<Packed> packed;             ///< For the sparse kernel, where its time was not just guessed.
};

/// Estimates the times of the node at `index`, a convolution of codes, on `isa`, AVX-512 or wider.
[[nodiscard]] ConvTimes conv_times(const Graph& graph, std::size_t index, const Neighbours& neighbours, Isa isa,
                                   const CostCoefficients& cost);

}  // namespace podaq::runtime_detail
