#pragma once

#include <torch/types.h>

#include <map>
#include <string>

#include "podaq/training/graph_module.h"

namespace podaq {

/// A network's parameters and buffers as they were, by name.
using NetworkSnapshot = std::map<std::string, torch::Tensor>;

/// Copies of all parameters and buffers.
[[nodiscard]] NetworkSnapshot take_snapshot(const GraphModule& model);

/// Writes a snapshot of the same network back into its parameters and buffers. Iterative pruning does so after each
/// round: what survives trains again from there. Sources: Frankle & Carbin, arXiv 1803.03635 (from initialization);
/// Frankle et al., arXiv 1903.01611 (from an early epoch).
void rewind(const GraphModule& model, const NetworkSnapshot& snapshot);

}  // namespace podaq
