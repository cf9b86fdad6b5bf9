#include "runtime/cost_model.h"

#include <algorithm>

#include "runtime/kernels/quad_packing.h"
#include "runtime/kernels/tile_conv.h"

namespace podaq::runtime_detail {

namespace {

double panels_of(const ConvGeometry& g) {
  return static_cast<double>(round_up(g.output_positions(), avx512::panel_positions) / avx512::panel_positions);
}

// What the sparse kernel does besides its panels.
double preparation_ns(const ConvGeometry& g, const CostCoefficients& cost) {
  if (g.stride_height == 1 && g.stride_width == 1 && g.input_width == g.output_width) return cost.call;
  return cost.call +
         cost.plane_copy * static_cast<double>(g.input_channels * g.kernel_width * g.reached_height() * g.output_width);
}

// Outputs of a layer and bytes of a window as vectors see them.
struct DenseSize {
  double outputs = 0.0, window = 0.0;
};

DenseSize dense_size(const ConvGeometry& g) {
  constexpr std::size_t lanes = 16;
  // Groups of few outputs are merged until they fill a vector.
  const std::size_t merged = std::max<std::size_t>(1, groups_to_merge(g, lanes));
  const std::size_t groups = g.groups / merged;
  const std::size_t outputs = round_up(g.outputs_per_group() * merged, lanes) * groups * g.output_positions();
  const std::size_t window = round_up(g.channels_per_group() * merged * g.taps(), quad);
  return {.outputs = static_cast<double>(outputs), .window = static_cast<double>(window)};
}

double border_ns(const ConvGeometry& g, const CostCoefficients& cost) {
  const bool copies = g.taps() > 1;
  return copies ? cost.border_copy * static_cast<double>(g.input_channels * g.input_positions()) : 0.0;
}

}  // namespace

double quad_conv_ns(const ConvGeometry& g, const CostCoefficients& cost) {
  const DenseSize size = dense_size(g);
  return cost.call + cost.dense_product * size.outputs * size.window + cost.dense_output * size.outputs +
         border_ns(g, cost);
}

double tile_conv_ns(const ConvGeometry& g, const CostCoefficients& cost) {
  return cost.call + cost.tile_cycle * static_cast<double>(amx::tile_conv_cycles(g)) +
         cost.tile_output * dense_size(g).outputs + border_ns(g, cost);
}

double sparse_conv_ns(const ConvGeometry& g, const SparseProgram& program, const CostCoefficients& cost) {
  double panel = cost.pair * static_cast<double>(program.pairs.size()) +
                 cost.row * static_cast<double>(g.output_channels) +
                 cost.handed_sums * static_cast<double>(program.rows.size() - g.output_channels);
  for (const avx512::SparseRun& run : program.runs)
    panel += static_cast<double>(run.groups) * run.quads * (cost.quad + cost.quad_row * run.rows);
  return preparation_ns(g, cost) + panels_of(g) * panel;
}

double guess_sparse_conv_ns(const ConvGeometry& g, std::span<const std::int8_t> weights, std::size_t joined_rows,
                            const CostCoefficients& cost) {
  const auto zeros = std::count(weights.begin(), weights.end(), std::int8_t{0});
  const auto nonzeros = static_cast<double>(static_cast<std::ptrdiff_t>(weights.size()) - zeros);
  const double products = nonzeros / 4.0;
  const auto columns = static_cast<double>(g.input_channels * g.taps());
  return preparation_ns(g, cost) +
         panels_of(g) *
             (products * (cost.quad / static_cast<double>(joined_rows) + cost.quad_row) +
              cost.row * static_cast<double>(g.output_channels) + cost.pair * std::min(columns, nonzeros) / 2.0);
}

}  // namespace podaq::runtime_detail
