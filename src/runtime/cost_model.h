#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "runtime/cost_coefficients.h"
#include "runtime/kernels/absorption.h"
#include "runtime/kernels/sparse_program.h"
#include "runtime/plan.h"
#include "runtime/window.h"

// Estimated times in ns, of one sample of a batch.
namespace podaq::runtime_detail {

/// What a convolution does besides multiplying, as its operands' layouts and its neighbours have it.
struct ConvSurroundings {
  std::size_t batch = 1;
  bool transposes_input = false, transposes_residual = false;
  bool adds_residual = false;
  bool quantizes = false;  ///< Whether it reads floats, the quantize before it absorbed.
  PoolWindow pool{};       ///< The windows of the max pooling that it absorbed; 1 x 1: none.
};

/// A convolution by avx512_quad_conv.
[[nodiscard]] double quad_conv_ns(const ConvGeometry& geometry, const ConvSurroundings& around,
                                  const CostCoefficients& cost);

/// A convolution by amx_tile_conv.
[[nodiscard]] double tile_conv_ns(const ConvGeometry& geometry, const ConvSurroundings& around,
                                  const CostCoefficients& cost);

/// A convolution by avx512_sparse_conv. It absorbs nothing.
[[nodiscard]] double sparse_conv_ns(const SparseConv& conv, const ConvSurroundings& around,
                                    const CostCoefficients& cost);

/// What a sparse convolution will do, before its weights are arranged: as if quads were filled.
struct SparseGuess {
  double quads = 0.0;      ///< Of one channel each.
  std::size_t copied = 0;  ///< Bytes.
};
[[nodiscard]] SparseGuess guess_sparse_conv(const ConvGeometry& geometry, double nonzeros);

/// The time of such a guess where `joined_rows` channels share each quad. With avx512::most_joined_rows it is about the
/// least that it can be.
[[nodiscard]] double guessed_sparse_conv_ns(const ConvGeometry& geometry, const ConvSurroundings& around,
                                            const SparseGuess& guess, std::size_t joined_rows,
                                            const CostCoefficients& cost);

/// The windows of a pooling of codes.
struct PoolSize {
  std::size_t channels = 1, rows = 1, columns = 1;  ///< Of the output.
  std::size_t taps = 1;                             ///< Of each window.
  bool has_fast_stride = true;                      ///< Whether windows are one or two columns apart, all alike.
};

/// A max pooling on AVX-512.
[[nodiscard]] double max_pool_ns(const PoolSize& pool, std::size_t batch, Layout layout, const CostCoefficients& cost);

/// A quantize on AVX-512 that no convolution absorbed.
[[nodiscard]] double quantize_ns(std::size_t channels, std::size_t positions, std::size_t batch, Layout output,
                                 const CostCoefficients& cost);

/// A node of a plan, what it absorbed included; nothing for kernels that the model does not know.
[[nodiscard]] std::optional<double> node_ns(const PlanNode& node, std::size_t batch, const CostCoefficients& cost);

}  // namespace podaq::runtime_detail
