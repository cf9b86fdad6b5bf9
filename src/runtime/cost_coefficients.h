#pragma once

#include <array>
#include <string_view>

namespace podaq::runtime_detail {

/// What the parts of the kernels' work take, in ns; every estimate is a sum of these times counts. The defaults were
/// fitted by `podaq tune` on a Xeon with AVX-512 VNNI and AMX (family 6, model 167 as its virtual machine
/// says); for a choice only their ratios matter.
struct CostCoefficients {
  double call = 0.0;     ///< A kernel's fixed part,
  double sample = 32.7;  ///< and that of each sample of a batch.

  // avx512_quad_conv
  double dense_dot = 0.117;    ///< 16 outputs of a position times a quad.
  double dense_step = 1.46;    ///< A quad for all positions and outputs of a block of registers.
  double dense_output = 1.73;  ///< Rounding and storing 16 outputs of a position.

  // amx_tile_conv
  double tile_product = 4.87;     ///< 16 positions times 64 bytes of the window times 16 outputs.
  double tile_step = 5.45;        ///< 64 bytes of the window for all outputs of 16 positions.
  double tile_set_up = 111.0;     ///< Setting the tiles up and giving them back.
  double tile_weight = 3.05;      ///< 1024 bytes of weights from beyond the first-level cache.
  double tile_sum = 0.919;        ///< Storing and loading 16 sums of a position.
  double tile_output = 1.25;      ///< Rounding and storing 16 outputs.
  double gathered_byte = 0.0569;  ///< Copying the windows,
  double gathered_run = 0.0;      ///< and each contiguous part of one.

  // avx512_sparse_conv, all per panel of 64 positions
  double sparse_quad = 2.14;      ///< Loading a quad,
  double sparse_quad_row = 0.56;  ///< and multiplying it for each row that shares it.
  double sparse_row = 2.40;       ///< Rounding and storing a row.

  // Around the convolutions
  double residual = 0.061;         ///< Adding a second operand, per output.
  double border_byte = 0.0078;     ///< Copying an input with its border, channels last,
  double border_row = 4.22;        ///< and each of its rows.
  double plane_byte = 0.018;       ///< Copying an input into planes or what a panel reads.
  double far_byte = 0.026;         ///< Moving a value whose batch exceeds the second-level cache.
  double transpose = 0.0656;       ///< Changing the layout of a value, per code.
  double quantize = 0.232;         ///< Rounding floats to codes, each.
  double interleave = 0.421;       ///< Likewise of two or three channels, channels last.
  double scatter = 0.892;          ///< Likewise of more channels.
  double scalar = 1.91;            ///< What only a scalar kernel does, per code.
  double pool_load = 2.41;         ///< Max pooling, channels last: reading one tap of 64 channels.
  double planar_pool_load = 1.67;  ///< The same, planar: reading one tap of a vector of outputs.
  double planar_pool_row = 0.0;    ///< Each row of a channel besides.
};

/// A coefficient by name, as tuning files spell it.
struct NamedCoefficient {
  std::string_view name;
  double CostCoefficients::*member;
};

inline constexpr std::array<NamedCoefficient, 29> named_coefficients = {{
    {"call", &CostCoefficients::call},
    {"sample", &CostCoefficients::sample},
    {"dense_dot", &CostCoefficients::dense_dot},
    {"dense_step", &CostCoefficients::dense_step},
    {"dense_output", &CostCoefficients::dense_output},
    {"tile_product", &CostCoefficients::tile_product},
    {"tile_step", &CostCoefficients::tile_step},
    {"tile_set_up", &CostCoefficients::tile_set_up},
    {"tile_weight", &CostCoefficients::tile_weight},
    {"tile_sum", &CostCoefficients::tile_sum},
    {"tile_output", &CostCoefficients::tile_output},
    {"gathered_byte", &CostCoefficients::gathered_byte},
    {"gathered_run", &CostCoefficients::gathered_run},
    {"sparse_quad", &CostCoefficients::sparse_quad},
    {"sparse_quad_row", &CostCoefficients::sparse_quad_row},
    {"sparse_row", &CostCoefficients::sparse_row},
    {"residual", &CostCoefficients::residual},
    {"border_byte", &CostCoefficients::border_byte},
    {"border_row", &CostCoefficients::border_row},
    {"plane_byte", &CostCoefficients::plane_byte},
    {"far_byte", &CostCoefficients::far_byte},
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
