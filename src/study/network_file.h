#pragma once

#include <filesystem>

#include "podaq/training/graph_module.h"

namespace podaq::study_detail {

/// Writes all parameters and buffers, whole or not at all.
void save_network(const GraphModule& model, const std::filesystem::path& path);

/// Writes what `save_network` wrote of the same network into `model`. Throws Error(format) naming a damaged file and
/// Error(invalid_argument) naming one of another network.
void load_network(GraphModule& model, const std::filesystem::path& path);

}  // namespace podaq::study_detail
