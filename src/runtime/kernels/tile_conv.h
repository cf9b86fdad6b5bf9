#pragma once

#include "runtime/kernel.h"
#include "runtime/kernels/absorption.h"
#include "runtime/kernels/amx/tasks.h"

namespace podaq::runtime_detail::amx {

/// What all groups and samples of a node share.
[[nodiscard]] TileTask tile_task(const TileConv& tiles);

/// Whether a convolution whose small groups are merged can absorb a max pooling over such windows.
[[nodiscard]] bool can_pool(const ConvGeometry& geometry, const PoolWindow& window);

/// What a batch of a convolution takes, copying windows included where that is done.
struct TileConvWork {
  std::size_t set_ups = 1;      ///< How often the tiles are set up.
  std::size_t products = 0;     ///< Tiles of 16 positions times 64 bytes of the window times 16 outputs.
  std::size_t steps = 0;        ///< Tiles of 16 positions times 64 bytes, for each block of 64 outputs.
  std::size_t far_weights = 0;  ///< Tiles of weights that come from beyond the first-level cache.
  std::size_t sums = 0;         ///< Vectors of 16 outputs of a position, those between rows included.
  std::size_t gathered_bytes = 0, gathered_runs = 0;  ///< Of all windows.
};

/// The work of a convolution whose small groups are merged.
/// @param pool   The windows of the max pooling that it absorbed; 1 x 1: none.
[[nodiscard]] TileConvWork tile_conv_work(const ConvGeometry& geometry, const PoolWindow& pool, std::size_t batch);

}  // namespace podaq::runtime_detail::amx
