#pragma once

#include <array>
#include <string_view>

namespace podaq::runtime_detail {

/// What the parts of the kernels' work take, in ns; every estimate is a sum of these times counts. The defaults were
/// fitted by `podaq tune` on a Xeon with AVX-512 VNNI and AMX at 3.8 GHz (family 6, model 167 as its virtual machine
/// says); for a choice only their ratios matter.
struct CostCoefficients {
  double call = 60.0;  ///< A convolution's fixed part, per sample.

  // avx512_quad_conv
  double dense_dot = 0.15;    ///< 16 outputs of a position times a quad.
  double dense_step = 0.4;    ///< A quad for all positions and outputs of a block of registers.
  double dense_output = 3.0;  ///< Rounding and storing 16 outputs of a position.

  // amx_tile_conv
  double tile_product = 4.8;    ///< 16 positions times 64 bytes of the window times 16 outputs.
  double tile_step = 2.0;       ///< 64 bytes of the window for all outputs of 16 positions.
  double tile_output = 0.8;     ///< Storing, rounding and storing again 16 outputs of a position.
  double gathered_byte = 0.01;  ///< Copying the windows,
  double gathered_run = 2.0;    ///< and each contiguous part of one.

  // avx512_sparse_conv, all per panel of 64 positions
  double sparse_pair = 1.1;      ///< Laying out a pair.
  double sparse_quad = 1.0;      ///< Loading a quad,
  double sparse_quad_row = 0.6;  ///< and multiplying it for each row that shares it.
  double sparse_row = 3.0;       ///< Rounding and storing a row.
  double sparse_sums = 2.5;      ///< Storing and loading a row's sums between two blocks.

  // Around the convolutions
  double residual = 0.02;         ///< Adding a second operand, per output.
  double border_byte = 0.02;      ///< Copying an input with its border, channels last,
  double border_row = 5.0;        ///< and each of its rows.
  double plane_byte = 0.05;       ///< Copying an input into planes.
  double transpose = 0.12;        ///< Changing the layout of a value, per code.
  double quantize = 0.03;         ///< Rounding floats to codes, each.
  double scatter = 0.9;           ///< Rounding floats to codes of more than three channels, channels last, each.
  double scalar = 0.9;            ///< What only a scalar kernel does, per code.
  double pool_load = 0.6;         ///< Max pooling, channels last: reading one tap of 64 channels.
  double planar_pool_load = 0.6;  ///< The same, planar: reading one tap of a vector of outputs.
  double planar_pool_row = 3.0;   ///< Each row of a channel besides.
};

/// A coefficient by name, as tuning files spell it.
struct NamedCoefficient {
  std::string_view name;
  double CostCoefficients::*member;
};

inline constexpr std::array<NamedCoefficient, 25> named_coefficients = {{
    {"call", &CostCoefficients::call},
    {"dense_dot", &CostCoefficients::dense_dot},
    {"dense_step", &CostCoefficients::dense_step},
    {"dense_output", &CostCoefficients::dense_output},
    {"tile_product", &CostCoefficients::tile_product},
    {"tile_step", &CostCoefficients::tile_step},
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
    {"scatter", &CostCoefficients::scatter},
    {"scalar", &CostCoefficients::scalar},
    {"pool_load", &CostCoefficients::pool_load},
    {"planar_pool_load", &CostCoefficients::planar_pool_load},
    {"planar_pool_row", &CostCoefficients::planar_pool_row},
}};
static_assert(sizeof(CostCoefficients) == named_coefficients.size() * sizeof(double));

}  // namespace podaq::runtime_detail
