#pragma once

#include "runtime/kernels/amx/tasks.h"

// What the AMX files share among themselves.
namespace podaq::runtime_detail::amx {

/// The output channels computed together.
struct Block {
  const std::int8_t* weights = nullptr;
  std::size_t first_output = 0;
  std::size_t outputs = 0;
  std::size_t vectors = 0;  ///< Of 16 channels each.
};

/// A run of positions, and where their accumulators lie.
struct Strip {
  std::size_t first = 0;  ///< Position whose accumulators are the first row.
  std::size_t count = 0;
  std::int32_t* accumulators = nullptr;
};

/// Whether a task takes the maximum over windows of more than one position.
[[nodiscard]] bool pools(const TileTask& task);

/// Turns sums into results: those of positions [first, first + count), which lie in `strip`.
void store_strip(const TileTask& task, const Block& block, const Strip& strip, std::size_t first, std::size_t count);

}  // namespace podaq::runtime_detail::amx
