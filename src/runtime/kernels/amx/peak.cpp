#include "runtime/kernels/peak.h"

#include <immintrin.h>

#include "runtime/kernels/amx/tasks.h"

namespace podaq::runtime_detail::amx {

std::uint64_t multiply_at_peak(std::size_t rounds) {
  constexpr std::uint64_t products = tile_positions * tile_outputs * tile_bytes;  // of one instruction
  TileTask full;
  full.rows = 1;
  full.columns = tile_positions;
  configure_tiles(full);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (std::size_t round = 0; round < rounds; ++round) {
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
  }
  release_tiles();
  return rounds * 4 * products;
}

}  // namespace podaq::runtime_detail::amx
