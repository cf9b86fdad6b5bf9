#pragma once

#include "runtime/kernel.h"
#include "runtime/kernels/amx/tasks.h"

namespace podaq::runtime_detail::amx {

/// What all groups and samples of a node share.
[[nodiscard]] TileTask tile_task(const TileConv& tiles);

}  // namespace podaq::runtime_detail::amx
