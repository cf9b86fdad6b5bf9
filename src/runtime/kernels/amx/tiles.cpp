#include <immintrin.h>

#include "runtime/kernels/amx/strips.h"

namespace podaq::runtime_detail::amx {

namespace {

constexpr std::size_t lanes = 16;
constexpr std::size_t most_vectors = block_outputs / lanes;
constexpr std::size_t vector_bytes = 64;
constexpr std::size_t quads_per_chunk = 16;
// Positions that are computed before they are turned into codes: few, so that the processor overlaps both, where the
// weights stay in the first-level cache; else more, so that the weights are read less often.
constexpr std::size_t short_strip = 16;
constexpr std::size_t long_strip = 32;

// The tile registers: 0 to 3 accumulate, 4 and 5 hold input, 6 and 7 weights.
struct alignas(vector_bytes) TileConfiguration {
  std::uint8_t palette = 1, start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

// Whether a strip is all positions that one row of results needs.
bool strips_are_bands(const TileTask& task) {
  return task.rows > 1 && pools(task);
}

std::size_t positions_of(const TileTask& task) {
  if (task.rows == 1) return task.columns / task.pool_columns * task.pool_columns;
  return (task.rows - 1) * task.pitch + task.columns;
}

// One tile of positions by up to four of outputs.
template <std::size_t vectors>
void multiply_row(const TileTask& task, const Block& block, const std::uint8_t* input, std::int32_t* sums) {
  const std::int32_t* bias = task.bias + block.first_output;
  const long weight_stride = static_cast<long>(vectors * vector_bytes);
  const auto stride = static_cast<long>(task.position_stride);
  _tile_loadd(0, bias, 0);
  if constexpr (vectors > 1) _tile_loadd(1, bias + lanes, 0);
  if constexpr (vectors > 2) _tile_loadd(2, bias + 2 * lanes, 0);
  if constexpr (vectors > 3) _tile_loadd(3, bias + 3 * lanes, 0);
  const std::int8_t* weights = block.weights;
  for (std::size_t chunk = 0; chunk < task.chunks; ++chunk) {
    _tile_loadd(4, input + task.chunk_offsets[chunk], stride);
    _tile_loadd(6, weights, weight_stride);
    _tile_dpbusd(0, 4, 6);
    if constexpr (vectors > 1) {
      _tile_loadd(7, weights + vector_bytes, weight_stride);
      _tile_dpbusd(1, 4, 7);
    }
    if constexpr (vectors > 2) {
      _tile_loadd(6, weights + 2 * vector_bytes, weight_stride);
      _tile_dpbusd(2, 4, 6);
    }
    if constexpr (vectors > 3) {
      _tile_loadd(7, weights + 3 * vector_bytes, weight_stride);
      _tile_dpbusd(3, 4, 7);
    }
    weights += quads_per_chunk * vectors * vector_bytes;
  }
  constexpr long sum_stride = block_outputs * sizeof(std::int32_t);
  _tile_stored(0, sums, sum_stride);
  if constexpr (vectors > 1) _tile_stored(1, sums + lanes, sum_stride);
  if constexpr (vectors > 2) _tile_stored(2, sums + 2 * lanes, sum_stride);
  if constexpr (vectors > 3) _tile_stored(3, sums + 3 * lanes, sum_stride);
}

// Two tiles of positions by one or two of outputs, the ones from `first_vector` on.
template <bool two_vectors>
void multiply_square(const TileTask& task, const Block& block, std::size_t first_vector, const std::uint8_t* upper,
                     const std::uint8_t* lower, std::int32_t* upper_sums, std::int32_t* lower_sums) {
  const std::int32_t* bias = task.bias + block.first_output + first_vector * lanes;
  const auto weight_stride = static_cast<long>(block.vectors * vector_bytes);
  const auto stride = static_cast<long>(task.position_stride);
  _tile_loadd(0, bias, 0);
  _tile_loadd(2, bias, 0);
  if constexpr (two_vectors) {
    _tile_loadd(1, bias + lanes, 0);
    _tile_loadd(3, bias + lanes, 0);
  }
  const std::int8_t* weights = block.weights + first_vector * vector_bytes;
  for (std::size_t chunk = 0; chunk < task.chunks; ++chunk) {
    _tile_loadd(6, weights, weight_stride);
    _tile_loadd(4, upper + task.chunk_offsets[chunk], stride);
    _tile_dpbusd(0, 4, 6);
    _tile_loadd(5, lower + task.chunk_offsets[chunk], stride);
    _tile_dpbusd(2, 5, 6);
    if constexpr (two_vectors) {
      _tile_loadd(7, weights + vector_bytes, weight_stride);
      _tile_dpbusd(1, 4, 7);
      _tile_dpbusd(3, 5, 7);
    }
    weights += quads_per_chunk * block.vectors * vector_bytes;
  }
  constexpr long sum_stride = block_outputs * sizeof(std::int32_t);
  upper_sums += first_vector * lanes;
  lower_sums += first_vector * lanes;
  _tile_stored(0, upper_sums, sum_stride);
  _tile_stored(2, lower_sums, sum_stride);
  if constexpr (two_vectors) {
    _tile_stored(1, upper_sums + lanes, sum_stride);
    _tile_stored(3, lower_sums + lanes, sum_stride);
  }
}

void multiply_one(const TileTask& task, const Block& block, const std::uint8_t* input, std::int32_t* sums) {
  switch (block.vectors) {
    case 1:
      return multiply_row<1>(task, block, input, sums);
    case 2:
      return multiply_row<2>(task, block, input, sums);
    case 3:
      return multiply_row<3>(task, block, input, sums);
    default:
      return multiply_row<4>(task, block, input, sums);
  }
}

void multiply_two(const TileTask& task, const Block& block, const std::uint8_t* upper, const std::uint8_t* lower,
                  std::int32_t* upper_sums, std::int32_t* lower_sums) {
  std::size_t vector = 0;
  for (; vector + 2 <= block.vectors; vector += 2)
    multiply_square<true>(task, block, vector, upper, lower, upper_sums, lower_sums);
  if (vector < block.vectors) multiply_square<false>(task, block, vector, upper, lower, upper_sums, lower_sums);
}

// Computes the sums of a strip. A strip that is no multiple of a tile ends with a tile that overlaps the one before;
// one shorter than a tile starts earlier.
Strip sum_strip(const TileTask& task, const Block& block, Strip strip, bool pairs) {
  const std::size_t all = positions_of(task);
  const std::size_t tile_rows = all < tile_positions ? all : tile_positions;
  if (strip.count < tile_rows) {
    const std::size_t strip_end = strip.first + strip.count;
    strip.first = strip_end < tile_rows ? 0 : strip_end - tile_rows;
    strip.count = tile_rows;
  }
  const std::uint8_t* input = task.input + strip.first * task.position_stride;
  const std::size_t last = strip.count - tile_rows;
  const auto row_of = [&](std::size_t offset) { return offset < last ? offset : last; };
  for (std::size_t offset = 0; offset < strip.count;) {
    const std::size_t row = row_of(offset);
    std::int32_t* sums = strip.accumulators + row * block_outputs;
    offset += tile_positions;
    if (pairs && offset < strip.count) {
      const std::size_t lower = row_of(offset);
      offset += tile_positions;
      multiply_two(task, block, input + row * task.position_stride, input + lower * task.position_stride, sums,
                   strip.accumulators + lower * block_outputs);
    } else {
      multiply_one(task, block, input + row * task.position_stride, sums);
    }
  }
  return strip;
}

// Whole windows of the maximum.
std::size_t strip_length(const TileTask& task, bool pairs) {
  if (strips_are_bands(task)) return (task.pool_rows - 1) * task.pitch + task.columns;
  const std::size_t length = pairs ? long_strip : short_strip;
  return length / task.pool_columns * task.pool_columns;
}

void convolve_block(const TileTask& task, const Block& block) {
  const bool pairs = task.chunks * quads_per_chunk * block.vectors * vector_bytes > cached_weight_bytes;
  const std::size_t length = strip_length(task, pairs);
  const std::size_t advance = strips_are_bands(task) ? task.pool_rows * task.pitch : length;
  const std::size_t rows = task.rows / task.pool_rows * task.pool_rows;
  const std::size_t end = task.rows == 1 ? positions_of(task) : (rows - 1) * task.pitch + task.columns;
  // Each strip is stored while the next is being summed.
  Strip before;
  std::size_t before_first = 0;
  std::size_t before_count = 0;
  std::size_t area = 0;
  for (std::size_t first = 0; first < end; first += advance, area ^= 1U) {
    const std::size_t count = end - first < length ? end - first : length;
    const Strip strip = sum_strip(task, block,
                                  {.first = first,
                                   .count = count,
                                   .accumulators = task.accumulators + area * task.accumulator_rows * block_outputs},
                                  pairs);
    if (before_count != 0) store_strip(task, block, before, before_first, before_count);
    before = strip;
    before_first = first;
    before_count = count;
  }
  if (before_count != 0) store_strip(task, block, before, before_first, before_count);
}

}  // namespace

std::size_t accumulator_rows(const TileTask& task) {
  const std::size_t strip = strips_are_bands(task) ? strip_length(task, true) : long_strip;
  return strip + tile_positions + most_vectors * task.pool_columns;
}

void configure_tiles(const TileTask& task) {
  TileConfiguration configuration;
  const std::size_t positions = positions_of(task);
  const auto rows = static_cast<std::uint8_t>(positions < tile_positions ? positions : tile_positions);
  for (std::size_t tile = 0; tile < 8; ++tile) {
    configuration.row_bytes[tile] = tile_bytes;
    configuration.rows[tile] = tile < 6 ? rows : static_cast<std::uint8_t>(quads_per_chunk);
  }
  // g++ 12's _tile_loadconfig tells the compiler of the first 8 bytes alone, and the other stores are optimized away.
  asm volatile("ldtilecfg %0" : : "m"(configuration));
}

void release_tiles() {
  _tile_release();
}

void convolve_tiles(const TileTask& task) {
  const std::size_t block_quads = task.chunks * quads_per_chunk;
  const std::int8_t* weights = task.weights;
  for (std::size_t first = 0; first < task.outputs; first += block_outputs) {
    const std::size_t left = task.outputs - first;
    const std::size_t outputs = left < block_outputs ? left : block_outputs;
    const Block block{
        .weights = weights, .first_output = first, .outputs = outputs, .vectors = (outputs + lanes - 1) / lanes};
    convolve_block(task, block);
    weights += block_quads * block.vectors * vector_bytes;
  }
}

}  // namespace podaq::runtime_detail::amx
