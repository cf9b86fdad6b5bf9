#pragma once

#include "runtime/kernel.h"
#include "runtime/kernels/amx/tasks.h"

namespace podaq::runtime_detail::amx {

/// What all groups and samples of a node share.
[[nodiscard]] TileTask tile_task(const TileConv& tiles);

/// What the tiles of one sample of a convolution take, in cycles: one for each position, times 16 outputs, times 64
/// bytes of its window; copying windows included where that is done.
[[nodiscard]] std::size_t tile_conv_cycles(ConvGeometry geometry);

}  // namespace podaq::runtime_detail::amx
