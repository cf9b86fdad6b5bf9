#pragma once

#include "runtime/kernel.h"

namespace podaq::runtime_detail::amx {

/// Packs a node that holds Linear over one row of codes, so that both tiles and quads can compute it.
[[nodiscard]] TileConv prepare_tile_linear(const NodeView& view);

/// Computes a batch of a packed linear: by tiles, a few samples by quads.
void run_tile_linear(const TileConv& tiles, const Operands& operands);

/// Scratch memory that it needs.
[[nodiscard]] std::size_t tile_linear_scratch_bytes(const TileConv& tiles);

}  // namespace podaq::runtime_detail::amx
