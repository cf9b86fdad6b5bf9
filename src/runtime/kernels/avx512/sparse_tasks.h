#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/kernels/avx512/tasks.h"

// The sparse convolution's program and the search for it, plain data like the tasks of tasks.h. Output positions are
// computed in panels of
// 64. Per panel and block of output channels, the input codes that the block's weights need are laid out once, two by
// two ("pairs"): 64 positions of one element of the window beside those of another. Each output channel then multiplies
// its nonzero weights with two pairs ("a quad") at a time.
namespace podaq::runtime_detail::avx512 {

inline constexpr std::size_t panel_positions = 64;
inline constexpr std::size_t pair_bytes = 2 * panel_positions;
inline constexpr std::size_t most_joined_rows = 4;

/// An element of the window: a channel under a tap.
struct WindowElement {
  std::int32_t offset = 0;  ///< Bytes from an output position's own place in the first input plane.
  std::uint32_t tap = 0;    ///< Index into a panel's masks of valid positions.
};

/// Two elements of the window whose codes lie side by side.
struct ElementPair {
  WindowElement first{}, second{};
};

/// Neighbouring groups of output channels of one shape. Each group's quads are `rows + 2` words: the places of two
/// pairs in bytes, then four weights for each row of the group.
struct SparseRun {
  std::uint32_t rows = 1;    ///< Output channels of a group, which share quads: 1 to most_joined_rows.
  std::uint32_t quads = 0;   ///< Of each group.
  std::uint32_t groups = 0;  ///< How many follow one another.
};

/// Output channels that share pairs, and the part of the window that the pairs lie in: where the window is large,
/// several blocks compute the same channels, handing their sums on.
struct SparseBlock {
  std::uint32_t pairs = 0;  ///< How many of the program's pairs belong to it, as in the next one.
  std::uint32_t runs = 0;
  bool is_first = true, is_last = true;  ///< Of the blocks that compute the same channels.
};

/// What a row's accumulator starts from and turns into.
struct SparseRow {
  std::uint32_t channel = 0;  ///< Of the output.
  std::int32_t bias = 0;
  float multiplier = 0.0F;
  std::uint32_t sums = 0;  ///< Its place among the sums that are handed on.
};

/// A sparse convolution of one sample. The accumulators times the multipliers, plus the residual, lie below 2^31.
struct SparseTask {
  const std::uint8_t* input = nullptr;    ///< Planes in which windows of neighbouring positions are neighbours.
  std::uint8_t outside = 0;               ///< The code where a window leaves the input.
  const std::uint64_t* inside = nullptr;  ///< [panel][tap]: positions whose element lies inside; null: all.
  std::size_t taps = 1;
  std::size_t positions = 1;  ///< Of the output.
  const SparseBlock* blocks = nullptr;
  std::size_t block_count = 0;
  const ElementPair* pairs = nullptr;  ///< Of all blocks, one after another, as in the next three.
  const SparseRun* runs = nullptr;
  const std::uint32_t* quads = nullptr;
  const SparseRow* rows = nullptr;
  std::uint8_t* pair_codes = nullptr;      ///< Scratch, 64-byte aligned: pair_bytes for each pair of any block.
  std::int32_t* sums = nullptr;            ///< Scratch, 64-byte aligned: panel_positions for each row handed on.
  void* output = nullptr;                  ///< u8 codes or floats, planar.
  const std::uint8_t* residual = nullptr;  ///< Planar codes, or null.
  EpilogueTask epilogue{};
};
void convolve_sparse(const SparseTask& task);

/// Finds the column that shares most units with one, for pairing (kernels/sparse_program.cpp).
struct PartnerTask {
  const std::uint64_t* open = nullptr;      ///< By column: the units that still need it.
  const std::uint64_t* laid_out = nullptr;  ///< By column: 1 where it lies in a pair already, else 0.
  std::uint32_t columns = 0, column = 0;
};

/// A partner, the first of equals, and what the pair gains: the units that share it, less the columns that would be
/// laid out once more.
struct Partner {
  std::uint32_t column = 0;
  int gain = 0;  ///< Not above 0: no partner.
};
Partner best_partner(const PartnerTask& task);

}  // namespace podaq::runtime_detail::avx512
