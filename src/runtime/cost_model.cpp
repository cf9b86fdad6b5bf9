#include "runtime/cost_model.h"

#include <algorithm>

#include "runtime/kernels/quad_packing.h"
#include "runtime/kernels/registry.h"
#include "runtime/kernels/tile_conv.h"

namespace podaq::runtime_detail {

namespace {

constexpr std::size_t lanes = 16;
constexpr std::size_t vector_bytes = 64;
constexpr std::size_t most_vectors = 4;

double as_double(std::size_t count) {
  return static_cast<double>(count);
}

// What a kernel takes whatever the size of a sample.
double fixed_ns(std::size_t batch, const CostCoefficients& cost) {
  return cost.call / as_double(batch) + cost.sample;
}

// Bytes of a sample's value on their way from or to beyond the second-level cache.
double traffic_ns(std::size_t bytes, std::size_t batch, const CostCoefficients& cost) {
  constexpr std::size_t near_bytes = 1024 * 1024;
  return batch * bytes > near_bytes ? cost.far_byte * as_double(bytes) : 0.0;
}

// Vectors of 16 outputs of a result, pooled or not.
double results_of(const ConvGeometry& g, const PoolWindow& pool) {
  const std::size_t vectors = round_up(g.outputs_per_group(), lanes) / lanes * g.groups;
  return as_double(vectors * (g.output_height / pool.height) * (g.output_width / pool.width));
}

double floats_to_codes_ns(std::size_t channels, std::size_t positions, bool interleaves, const CostCoefficients& cost) {
  constexpr std::size_t most_fast_channels = 3;
  const double each = !interleaves || channels == 1    ? cost.quantize
                      : channels <= most_fast_channels ? cost.interleave
                                                       : cost.scatter;
  return each * as_double(channels * positions);
}

// Bringing the operands of a dense convolution to where it reads them.
double operands_ns(const ConvGeometry& g, const ConvSurroundings& around, const CostCoefficients& cost) {
  const std::size_t input = g.input_channels * g.input_positions();
  const std::size_t output = g.output_channels * g.output_positions();
  double time = traffic_ns(around.quantizes ? input * sizeof(float) : input, around.batch, cost) +
                traffic_ns(output / (around.pool.height * around.pool.width), around.batch, cost);
  if (around.transposes_input) time += cost.transpose * as_double(input);
  if (around.transposes_residual) time += cost.transpose * as_double(output);
  if (around.adds_residual) time += cost.residual * as_double(output);
  if (around.quantizes)
    time += floats_to_codes_ns(g.input_channels, g.input_positions(), true, cost) +
            cost.border_row * as_double(g.input_height);
  else if (!windows_lie_inside(g))
    time += cost.border_byte * as_double(g.reached_height() * g.reached_width() * g.input_channels) +
            cost.border_row * as_double(g.reached_height());
  return time;
}

// A quad for up to 64 outputs of all positions by avx512_quad_conv: compute_block of kernels/avx512/quads.cpp.
double quad_step_ns(std::size_t positions, std::size_t pooled, std::size_t vectors, const CostCoefficients& cost) {
  std::size_t largest = vectors == 4 ? 6 : vectors == 3 ? 8 : 12;
  if (largest % pooled != 0) largest = 4;
  const std::size_t left = positions % largest;
  const std::size_t blocks = positions / largest + left / 4 + left % 4 / 2 + left % 2;
  return cost.dense_dot * as_double(positions * vectors) + cost.dense_step * as_double(blocks);
}

// Panels of the sparse kernel; a last one of at most 32 positions takes about half as long, of at most 4 a bit less.
double panels_of(const ConvGeometry& g) {
  const std::size_t left = g.output_positions() % avx512::panel_positions;
  const double whole = as_double(g.output_positions() / avx512::panel_positions);
  if (left == 0) return whole;
  if (left <= 4) return whole + 0.45;
  return whole + (left <= avx512::panel_positions / 2 ? 0.6 : 1.0);
}

// What the sparse kernel does besides its quads, of which it copies that many bytes.
double sparse_operands_ns(const ConvGeometry& g, const ConvSurroundings& around, std::size_t copied,
                          const CostCoefficients& cost) {
  const std::size_t input = g.input_channels * g.input_positions();
  const std::size_t output = g.output_channels * g.output_positions();
  double time = traffic_ns(input, around.batch, cost) + traffic_ns(output, around.batch, cost);
  if (around.transposes_input) time += cost.transpose * as_double(input);
  if (around.transposes_residual) time += cost.transpose * as_double(output);
  if (around.adds_residual) time += cost.residual * as_double(output);
  return time + cost.plane_byte * as_double(copied);
}

ConvSurroundings surroundings_of(const QuadConv& conv, std::size_t batch) {
  return {.batch = batch,
          .transposes_input = conv.input_is_planar,
          .transposes_residual = conv.residual_is_planar,
          .adds_residual = conv.epilogue.adds_codes,
          .quantizes = conv.quantizes.has_value(),
          .pool = {.height = conv.pool_height, .width = conv.pool_width}};
}

std::optional<double> max_pool_node_ns(const Pool& pool, std::size_t batch, Layout layout,
                                       const CostCoefficients& cost) {
  if (pool.rows.spans.empty() || pool.columns.spans.empty()) return std::nullopt;
  const auto most_taps = [](const WindowList& windows) {
    std::size_t most = 0;
    for (const WindowSpan& span : windows.spans) most = std::max<std::size_t>(most, span.count);
    return most;
  };
  return max_pool_ns({.channels = pool.channels,
                      .rows = pool.rows.spans.size(),
                      .columns = pool.columns.spans.size(),
                      .taps = most_taps(pool.rows) * most_taps(pool.columns),
                      .has_fast_stride = pool.end_regular > pool.first_regular && pool.regular_stride <= 2},
                     batch, layout, cost);
}

}  // namespace

double quad_conv_ns(const ConvGeometry& geometry, const ConvSurroundings& around, const CostCoefficients& cost) {
  const ConvGeometry g = with_merged_groups(geometry);
  const std::size_t quads_per_run = round_up(g.channels_per_group() * run_taps(g), quad) / quad;
  const std::size_t quads = quads_per_run * (g.taps() / run_taps(g));
  const PoolWindow& pool = around.pool;
  const std::size_t positions =
      (g.output_height / pool.height * pool.height) * (g.output_width / pool.width * pool.width);
  const std::size_t vectors = round_up(g.outputs_per_group(), lanes) / lanes;
  const auto step_ns = [&](std::size_t block_vectors) {
    return quad_step_ns(positions, pool.height * pool.width, block_vectors, cost);
  };
  double steps = as_double(vectors / most_vectors) * step_ns(most_vectors);
  if (vectors % most_vectors != 0) steps += step_ns(vectors % most_vectors);
  return fixed_ns(around.batch, cost) + operands_ns(g, around, cost) + as_double(g.groups * quads) * steps +
         cost.dense_output * results_of(g, pool);
}

double tile_conv_ns(const ConvGeometry& geometry, const ConvSurroundings& around, const CostCoefficients& cost) {
  const ConvGeometry g = with_merged_groups(geometry);
  const amx::TileConvWork work = amx::tile_conv_work(g, around.pool, around.batch);
  const double tiles = cost.tile_set_up * as_double(work.set_ups) + cost.tile_product * as_double(work.products) +
                       cost.tile_step * as_double(work.steps) + cost.tile_weight * as_double(work.far_weights) +
                       cost.tile_sum * as_double(work.sums) + cost.gathered_byte * as_double(work.gathered_bytes) +
                       cost.gathered_run * as_double(work.gathered_runs);
  return fixed_ns(around.batch, cost) + operands_ns(g, around, cost) + tiles / as_double(around.batch) +
         cost.tile_output * results_of(g, around.pool);
}

double sparse_conv_ns(const SparseConv& conv, const ConvSurroundings& around, const CostCoefficients& cost) {
  const ConvGeometry& g = conv.geometry;
  double panel = cost.sparse_row * as_double(g.output_channels);
  for (const avx512::SparseRun& run : conv.program.runs)
    panel += static_cast<double>(run.groups) * run.quads * (cost.sparse_quad + cost.sparse_quad_row * run.rows);
  return fixed_ns(around.batch, cost) + sparse_operands_ns(g, around, copied_bytes(conv.input, g), cost) +
         panels_of(g) * panel;
}

SparseGuess guess_sparse_conv(const ConvGeometry& g, double nonzeros) {
  const double quads = nonzeros / as_double(avx512::quad_elements);
  return {.quads = quads, .copied = copied_bytes(plan_sparse_input(g, static_cast<std::size_t>(quads)).input, g)};
}

double guessed_sparse_conv_ns(const ConvGeometry& g, const ConvSurroundings& around, const SparseGuess& guess,
                              std::size_t joined_rows, const CostCoefficients& cost) {
  return fixed_ns(around.batch, cost) + sparse_operands_ns(g, around, guess.copied, cost) +
         panels_of(g) * (guess.quads * (cost.sparse_quad / as_double(joined_rows) + cost.sparse_quad_row) +
                         cost.sparse_row * as_double(g.output_channels));
}

double max_pool_ns(const PoolSize& pool, std::size_t batch, Layout layout, const CostCoefficients& cost) {
  const std::size_t outputs = pool.channels * pool.rows * pool.columns;
  const double base =
      fixed_ns(batch, cost) + traffic_ns(outputs * pool.taps, batch, cost) + traffic_ns(outputs, batch, cost);
  if (layout == Layout::channels_last) {
    const std::size_t vectors = round_up(pool.channels, vector_bytes) / vector_bytes;
    return base + cost.pool_load * as_double(pool.taps * vectors * pool.rows * pool.columns);
  }
  if (!pool.has_fast_stride) return base + cost.scalar * as_double(outputs * pool.taps);
  constexpr std::size_t outputs_per_vector = 32;
  const bool joins_rows = pool.rows == 1;
  const std::size_t rows = joins_rows ? 1 : pool.channels * pool.rows;
  const std::size_t columns = joins_rows ? pool.channels * pool.columns : pool.columns;
  const std::size_t vectors = round_up(columns, outputs_per_vector) / outputs_per_vector;
  return base + as_double(rows) * (cost.planar_pool_row + cost.planar_pool_load * as_double(pool.taps * vectors));
}

double quantize_ns(std::size_t channels, std::size_t positions, std::size_t batch, Layout output,
                   const CostCoefficients& cost) {
  return fixed_ns(batch, cost) + traffic_ns(channels * positions * sizeof(float), batch, cost) +
         traffic_ns(channels * positions, batch, cost) +
         floats_to_codes_ns(channels, positions, output == Layout::channels_last, cost);
}

std::optional<double> node_ns(const PlanNode& node, std::size_t batch, const CostCoefficients& cost) {
  if (node.kernel == &avx512::quad_conv) {
    const auto& conv = std::get<QuadConv>(node.packed);
    return quad_conv_ns(conv.geometry, surroundings_of(conv, batch), cost);
  }
  if (node.kernel == &amx::tile_conv) {
    const auto& conv = std::get<TileConv>(node.packed).conv;
    return tile_conv_ns(conv.geometry, surroundings_of(conv, batch), cost);
  }
  if (node.kernel == &avx512::sparse_conv) {
    const auto& conv = std::get<SparseConv>(node.packed);
    return sparse_conv_ns(conv,
                          {.batch = batch,
                           .transposes_input = !conv.input_is_planar,
                           .transposes_residual = !conv.residual_is_planar,
                           .adds_residual = conv.epilogue.adds_codes},
                          cost);
  }
  if (node.kernel == &avx512::code_max_pool)
    return max_pool_node_ns(std::get<Pool>(node.packed), batch, Layout::channels_last, cost);
  if (node.kernel == &avx512::planar_max_pool)
    return max_pool_node_ns(std::get<Pool>(node.packed), batch, Layout::planar, cost);
  if (node.kernel == &avx512::quantize) {
    const auto& conversion = std::get<Conversion>(node.packed);
    return quantize_ns(
        conversion.channels, conversion.positions, batch,
        conversion.output.channel == 1 && conversion.positions > 1 ? Layout::channels_last : Layout::planar, cost);
  }
  return std::nullopt;
}

}  // namespace podaq::runtime_detail
