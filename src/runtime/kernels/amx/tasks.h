#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/kernels/tasks.h"

// The entry points of the AMX files, as plain structs of pointers and sizes: see kernels/avx512/tasks.h.
namespace podaq::runtime_detail::amx {

/// Bytes of a window that one tile takes, output channels of a tile, and positions of a tile.
inline constexpr std::size_t tile_bytes = 64, tile_outputs = 16, tile_positions = 16;

/// Output channels that are computed together: four tiles.
inline constexpr std::size_t block_outputs = 64;

/// Weights of a block that stay in the first-level cache. Where they do not, two tiles of positions share each load.
inline constexpr std::size_t cached_weight_bytes = 24 * 1024;

/// A convolution of codes over one group, or a linear over a batch, and the maximum over windows of its results.
/// Position p of the flat plane reads the windows' 64-byte chunks at input + p * position_stride + chunk_offsets[...],
/// bytes that are no part of the window against weights of 0. Positions behind a row's end are computed and dropped.
struct TileTask {
  const std::uint8_t* input = nullptr;
  std::size_t position_stride = 0;
  const std::uint32_t* chunk_offsets = nullptr;
  std::size_t chunks = 1;
  const std::int8_t* weights = nullptr;  ///< [block of 64 outputs][chunk][quad][vector of 16 outputs][16][4].
  const std::int32_t* bias = nullptr;    ///< Padded to 16, like `multipliers`.
  const float* multipliers = nullptr;
  std::size_t outputs = 1;
  std::size_t rows = 1, columns = 1;            ///< Of the convolution's plane.
  std::size_t pitch = 1;                        ///< Positions between the starts of neighbouring rows.
  std::size_t pool_rows = 1, pool_columns = 1;  ///< Windows of the maximum, side by side; 1: none.
  void* output = nullptr;                       ///< u8 codes or floats.
  std::size_t output_channel_stride = 1, output_position_stride = 1;  ///< Elements; codes have channel stride 1.
  const std::uint8_t* residual = nullptr;                             ///< Codes with channel stride 1, or null.
  std::size_t residual_position_stride = 1;
  std::int32_t* accumulators = nullptr;  ///< Two areas of `accumulator_rows` rows of 64, at 64-byte boundaries.
  std::size_t accumulator_rows = 0;
  EpilogueTask epilogue;  ///< For codes the scaled sums must stay below 2^31.
};
void convolve_tiles(const TileTask& task);

/// Sets the tile registers up for tasks whose planes have the size of this one's; `release_tiles` gives them back.
void configure_tiles(const TileTask& task);
void release_tiles();

/// Rows of 64 accumulators that each of the two areas of a task needs; a little more than a strip, since stores that
/// join several results read past the last.
[[nodiscard]] std::size_t accumulator_rows(const TileTask& task);

}  // namespace podaq::runtime_detail::amx
