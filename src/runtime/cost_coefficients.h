#pragma once

#include <array>
#include <string_view>

namespace podaq::runtime_detail {

/// What the parts of the kernels' work take, in ns; every estimate is a sum of these times counts. The defaults were
/// fitted by `podaq tune` on a Xeon with AVX-512 VNNI and AMX at 3.8 GHz (family 6, model 167 as its virtual machine
/// says); for a choice only their ratios matter.
struct CostCoefficients {
  double call = 50.3;  ///< A convolution's fixed part, per sample.

  // avx512_quad_conv
  double dense_dot = 0.118;    ///< 16 outputs of a position times a quad.
  double dense_step = 1.28;    ///< A quad for all positions and outputs of a block of registers.
  double dense_output = 1.67;  ///< Rounding and storing 16 outputs of a position.

  // amx_tile_conv
  double tile_product = 3.54;     ///< 16 positions times 64 bytes of the window times 16 outputs.
  double tile_step = 7.3;         ///< 64 bytes of the window for all outputs of 16 positions.
  double tile_call = 145.0;       ///< Setting the tiles up and giving them back.
  double tile_weight = 4.16;      ///< 1024 bytes of weights from beyond the first-level cache.
  double tile_sum = 0.794;        ///< Storing and loading 16 sums of a position.
  double tile_output = 1.26;      ///< Rounding and storing 16 outputs.
  double gathered_byte = 0.0338;  ///< Copying the windows,
  double gathered_run = 8.59;     ///< and each contiguous part of one.

  // avx512_sparse_conv, all per panel of 64 positions
  double sparse_pair = 1.19;       ///< Laying out a pair.
  double sparse_quad = 1.21;       ///< Loading a quad,
  double sparse_quad_row = 0.576;  ///< and multiplying it for each row that shares it.
  double sparse_row = 3.34;        ///< Rounding and storing a row.
  double sparse_sums = 3.37;       ///< Storing and loading a row's sums between two blocks.

  // Around the convolutions
  double residual = 0.0544;        ///< Adding a second operand, per output.
  double border_byte = 0.00175;    ///< Copying an input with its border, channels last,
  double border_row = 6.52;        ///< and each of its rows.
  double plane_byte = 0.05;        ///< Copying an input into planes.
  double transpose = 0.0639;       ///< Changing the layout of a value, per code.
  double quantize = 0.185;         ///< Rounding floats to codes, each.
  double interleave = 0.251;       ///< Likewise of two or three channels, channels last.
  double scatter = 0.629;          ///< Likewise of more channels.
  double scalar = 0.9;             ///< What only a scalar kernel does, per code.
  double pool_load = 2.46;         ///< Max pooling, channels last: reading one tap of 64 channels.
  double planar_pool_load = 1.57;  ///< The same, planar: reading one tap of a vector of outputs.
  double planar_pool_row = 0.0;    ///< Each row of a channel besides.
};

/// A coefficient by name, as tuning files spell it.
struct NamedCoefficient {
  std::string_view name;
  double CostCoefficients::*member;
};

inline constexpr std::array<NamedCoefficient, 29> named_coefficients = {{
    {"call", &CostCoefficients::call},
    {"dense_dot", &CostCoefficients::dense_dot},
    {"dense_step", &CostCoefficients::dense_step},
    {"dense_output", &CostCoefficients::dense_output},
    {"tile_product", &CostCoefficients::tile_product},
    {"tile_step", &CostCoefficients::tile_step},
    {"tile_call", &CostCoefficients::tile_call},
    {"tile_weight", &CostCoefficients::tile_weight},
    {"tile_sum", &CostCoefficients::tile_sum},
    {"tile_output", &CostCoefficients::tile_output},
    {"gathered_byte", &CostCoefficients::gathered_byte},
    {"gathered_run", &CostCoefficients::gathered_run},
    {"sparse_pair", &CostCoefficients::sparse_pair},
    {"sparse_quad", &CostCoefficients::sparse_quad},
    {"sparse_quad_row", &CostCoefficients::sparse_quad_row},
    {"sparse_row", &CostCoefficients::sparse_row},
    {"sparse_sums", &CostCoefficients::sparse_sums},
    {"residual", &CostCoefficients::residual},
    {"border_byte", &CostCoefficients::border_byte},
    {"border_row", &CostCoefficients::border_row},
    {"plane_byte", &CostCoefficients::plane_byte},
    {"transpose", &CostCoefficients::transpose},
    {"quantize", &CostCoefficients::quantize},
    {"interleave", &CostCoefficients::interleave},
    {"scatter", &CostCoefficients::scatter},
    {"scalar", &CostCoefficients::scalar},
    {"pool_load", &CostCoefficients::pool_load},
    {"planar_pool_load", &CostCoefficients::planar_pool_load},
    {"planar_pool_row", &CostCoefficients::planar_pool_row},
}};
static_assert(sizeof(CostCoefficients) == named_coefficients.size() * sizeof(double));

}  // namespace podaq::runtime_detail
