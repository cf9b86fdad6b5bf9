#pragma once

#include <cstddef>
#include <limits>
#include <optional>

#include "runtime/kernel.h"

namespace podaq::runtime_detail {

/// What the parts of a linear's work on codes take, in ns. Measured by benchmarks/layers.cpp on Xeons with AVX-512 VNNI
/// at 3.8 GHz; only their ratios matter for a choice.
struct LinearCoefficients {
  double dense_vector = 0.5;    ///< 64 weights times a sample, avx512_quad_linear.
  double tile_vector = 0.04;    ///< The same, amx_tile_linear, of whole tiles of samples.
  double step = 1.75;           ///< 64 slots times a sample, avx512_sparse_linear.
  double block = 8.0;           ///< Storing the sums of 16 outputs of a sample, avx512_sparse_linear.
  double cached_byte = 0.009;   ///< Reading weights that stay in the second-level cache.
  double distant_byte = 0.037;  ///< Reading others.
};

/// Time of a batch by the dense kernel.
/// @param uses_tiles     Whether that is amx_tile_linear.
/// @param weights_stay   Whether its weights stay in the second-level cache between two batches.
[[nodiscard]] double dense_linear_ns(std::size_t inputs, std::size_t outputs, std::size_t batch, bool uses_tiles,
                                     bool weights_stay, const LinearCoefficients& cost);

/// Time of a batch by avx512_sparse_linear.
/// @param steps         Of all blocks of 16 outputs, see SparseLinear.
/// @param weights_stay  As above.
[[nodiscard]] double sparse_linear_ns(std::size_t steps, std::size_t outputs, std::size_t batch, bool weights_stay,
                                      const LinearCoefficients& cost);

/// What avx512_sparse_linear packed, where it can compute the node, which holds Linear on codes, and is the faster one
/// for single samples; with what the dense kernel needs for batches that are faster that way. `always`: wherever it
/// can, for every batch.
[[nodiscard]] std::optional<Packed> choose_sparse_linear(const NodeView& view, Isa isa, SparseKernels sparse,
                                                         const LinearCoefficients& cost = {});

}  // namespace podaq::runtime_detail
