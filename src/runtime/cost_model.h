#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/kernels/sparse_program.h"
#include "runtime/window.h"

namespace podaq::runtime_detail {

/// What the parts of the kernels' work take, in ns. The defaults were measured by benchmarks/sparse_conv.cpp on Xeons
/// with AVX-512 VNNI at 3.8 GHz; only their ratios matter for a choice.
struct CostCoefficients {
  double call = 60.0;  ///< A convolution's fixed part, per sample.

  // avx512_quad_conv
  double dense_product = 2.75e-3;  ///< A multiply-accumulate, lanes without a channel included.
  double dense_output = 0.19;      ///< Rounding and storing an output, lanes without a channel included.

  // amx_tile_conv
  double tile_cycle = 0.3;    ///< A position of a tile: 64 bytes of a window times 16 outputs.
  double tile_output = 0.05;  ///< Rounding and storing an output, lanes without a channel included.

  // avx512_sparse_conv, all per panel of 64 positions
  double pair = 1.1;         ///< Laying out a pair.
  double quad = 1.0;         ///< Loading a quad,
  double quad_row = 0.6;     ///< and multiplying it for each row that shares it.
  double row = 3.0;          ///< Rounding and storing a row.
  double handed_sums = 2.5;  ///< Storing and loading a row's sums between two blocks.

  // Per byte
  double border_copy = 0.02;       ///< Copying an input with its border, channels last.
  double plane_copy = 0.05;        ///< Copying an input into planes.
  double transpose = 0.12;         ///< Changing the layout of a value.
  double scalar = 0.9;             ///< What only a scalar kernel does.
  double quantize = 0.03;          ///< Rounding floats to codes.
  double pool_load = 0.012;        ///< Reading one tap of max pooling, channels last.
  double planar_pool_load = 0.01;  ///< The same, planar, per output that a vector holds.
};

/// Time of one sample by avx512_quad_conv.
[[nodiscard]] double quad_conv_ns(const ConvGeometry& geometry, const CostCoefficients& cost);

/// Time of one sample by amx_tile_conv.
[[nodiscard]] double tile_conv_ns(const ConvGeometry& geometry, const CostCoefficients& cost);

/// Time of one sample by the sparse kernel that runs `program`.
[[nodiscard]] double sparse_conv_ns(const ConvGeometry& geometry, const SparseProgram& program,
                                    const CostCoefficients& cost);

/// A guess of the same before the weights, {outputs, inputs of a group, taps}, are arranged: as if pairs were filled
/// and `joined_rows` channels shared each quad. With avx512::most_joined_rows it is about the least that it can be.
[[nodiscard]] double guess_sparse_conv_ns(const ConvGeometry& geometry, std::span<const std::int8_t> weights,
                                          std::size_t joined_rows, const CostCoefficients& cost);

}  // namespace podaq::runtime_detail
