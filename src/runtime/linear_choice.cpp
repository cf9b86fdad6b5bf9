#include "runtime/linear_choice.h"

#include <algorithm>

#include "runtime/isa.h"
#include "runtime/kernels/avx512/sparse_linear_task.h"
#include "runtime/kernels/quad_conv.h"
#include "runtime/kernels/quad_packing.h"
#include "runtime/kernels/registry.h"
#include "runtime/kernels/sparse_linear.h"
#include "runtime/kernels/tile_linear.h"
#include "runtime/kernels/weights.h"
#include "runtime/slices.h"

namespace podaq::runtime_detail {

namespace {

constexpr std::size_t vector_bytes = 64;

double read_ns(double bytes, bool weights_stay, const LinearCoefficients& cost) {
  return bytes * (weights_stay ? cost.cached_byte : cost.distant_byte);
}

// 16 outputs each.
double blocks_of(std::size_t outputs) {
  return static_cast<double>(round_up(outputs, avx512::sparse_lanes) / avx512::sparse_lanes);
}

// The largest batch up to which the sparse kernel stays the faster one, by more than the model may be wrong; none where
// a single sample is not.
std::size_t most_samples(std::size_t steps, const ConvGeometry& g, bool uses_tiles, bool weights_stay,
                         const LinearCoefficients& cost) {
  constexpr std::size_t large_batch = 64;  // beyond it, both times grow in proportion
  constexpr double least_gain = 1.1;
  std::size_t batch = 0;
  while (batch < large_batch &&
         least_gain * sparse_linear_ns(steps, g.output_channels, batch + 1, weights_stay, cost) <
             dense_linear_ns(g.input_channels, g.output_channels, batch + 1, uses_tiles, weights_stay, cost))
    ++batch;
  return batch == large_batch ? std::numeric_limits<std::size_t>::max() : batch;
}

}  // namespace

double dense_linear_ns(std::size_t inputs, std::size_t outputs, std::size_t batch, bool uses_tiles, bool weights_stay,
                       const LinearCoefficients& cost) {
  constexpr std::size_t least_tile_batch = 4;
  constexpr std::size_t least_tile_samples = 8;
  const bool in_tiles = uses_tiles && batch >= least_tile_batch;
  const auto samples = static_cast<double>(in_tiles ? std::max(batch, least_tile_samples) : batch);
  const double blocks = blocks_of(outputs);
  const double vectors = blocks * static_cast<double>(round_up(inputs, quad)) / quad;
  const double products = in_tiles ? cost.tile_vector + cost.tile_vector_sample * samples
                                   : cost.dense_vector + cost.dense_vector_sample * samples;
  return (in_tiles ? cost.tile_call : 0.0) + blocks * (cost.dense_block + cost.dense_block_sample * samples) +
         std::max(vectors * products, read_ns(vectors * vector_bytes, weights_stay, cost));
}

double sparse_linear_ns(std::size_t steps, std::size_t outputs, std::size_t batch, bool weights_stay,
                        const LinearCoefficients& cost) {
  const auto samples = static_cast<double>(batch);
  const double bytes = static_cast<double>(steps) * (avx512::step_bytes + sizeof(std::uint16_t));
  const double products = static_cast<double>(steps) * (cost.step + cost.step_sample * samples);
  return blocks_of(outputs) * (cost.sparse_block + cost.sparse_block_sample * samples) +
         std::max(products, read_ns(bytes, weights_stay, cost));
}

bool weights_stay_cached(std::size_t weight_bytes) {
  return weight_bytes <= second_level_cache_bytes() / 4 * 3;
}

std::optional<Packed> choose_sparse_linear(const NodeView& view, Isa isa, SparseKernels sparse,
                                           const LinearCoefficients& cost) {
  if (!is_usable(Isa::avx512, isa) || sparse == SparseKernels::never || !avx512::sparse_linear.accepts(view))
    return std::nullopt;
  if (sparse == SparseKernels::always) return avx512::sparse_linear.prepare(view);
  const ConvGeometry g{.input_channels = channel_count(view.input().shape),
                       .output_channels = channel_count(view.output().shape)};
  const bool uses_tiles = is_usable(Isa::amx, isa) && amx::tile_linear.accepts(view);
  const bool weights_stay = weights_stay_cached(weight_bytes(view.graph));
  const std::vector<std::int8_t> codes = integer_weights(view);
  const auto zeros = static_cast<std::size_t>(std::count(codes.begin(), codes.end(), std::int8_t{0}));
  // Arranging the weights takes time at load: only where it could pay.
  if (most_samples(least_steps(codes.size() - zeros), g, uses_tiles, weights_stay, cost) == 0) return std::nullopt;
  Packed packed = avx512::sparse_linear.prepare(view);
  auto& linear = std::get<SparseLinear>(packed);
  linear.most_samples = most_samples(linear.starts.size(), g, uses_tiles, weights_stay, cost);
  if (linear.most_samples == 0) return std::nullopt;
  if (linear.most_samples == std::numeric_limits<std::size_t>::max()) return packed;
  if (uses_tiles)
    linear.dense = amx::prepare_tile_linear(view);
  else
    linear.dense = TileConv{.conv = prepare_quad_linear(view, 1), .chunk_offsets = {}};
  return packed;
}

}  // namespace podaq::runtime_detail
