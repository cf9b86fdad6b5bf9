#pragma once

#include <cstddef>
#include <limits>
#include <optional>

#include "runtime/kernel.h"

namespace podaq::runtime_detail {

/// What the parts of a linear's work on codes take, in ns. Measured by benchmarks/layers.cpp on Xeons with AVX-512 VNNI
/// at 3.8 GHz; only their ratios matter for a choice.
struct LinearCoefficients {
  // For 64 weights ("vector") or slots ("step"): once a batch, and for each sample of it.
  double dense_vector = 0.27, dense_vector_sample = 0.19;  ///< avx512_quad_linear
  double tile_vector = 0.3, tile_vector_sample = 0.0475;   ///< amx_tile_linear; 8 samples at least
  double step = 0.5, step_sample = 1.1;                    ///< avx512_sparse_linear
  // For 16 outputs: rounding and storing.
  double dense_block = 3.0, dense_block_sample = 0.7;
  double sparse_block = 8.0, sparse_block_sample = 6.5;

  double tile_call = 150.0;     ///< Configuring tiles.
  double cached_byte = 0.006;   ///< Reading weights that stay in the second-level cache.
  double distant_byte = 0.033;  ///< Reading others.
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

/// Whether so many bytes of weights stay in the second-level cache from one batch to the next.
[[nodiscard]] bool weights_stay_cached(std::size_t weight_bytes);

/// What avx512_sparse_linear packed, where it can compute the node, which holds Linear on codes, and is the faster one
/// for single samples; with what the dense kernel needs for batches that are faster that way. `always`: wherever it
/// can, for every batch.
[[nodiscard]] std::optional<Packed> choose_sparse_linear(const NodeView& view, Isa isa, SparseKernels sparse,
                                                         const LinearCoefficients& cost = {});

}  // namespace podaq::runtime_detail
