#pragma once

#include <torch/serialize/archive.h>

#include <filesystem>
#include <span>

#include "podaq/prune/pruner.h"

namespace podaq::compress_detail {

void write_pruner_state(torch::serialize::OutputArchive& archive, const PrunerState& state);

/// What `write_pruner_state` wrote, found to fit the network and the groups that the recipe prunes; else it refuses the
/// checkpoint.
[[nodiscard]] PrunerState read_pruner_state(const std::filesystem::path& path, const GraphModule& model,
                                            std::span<const PruneGroup> groups, bool prunes_channels,
                                            torch::serialize::InputArchive& archive);

}  // namespace podaq::compress_detail
