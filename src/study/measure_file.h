#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "podaq/core/latency.h"
#include "podaq/study/study.h"
#include "podaq/study/task.h"
#include "podaq/training/graph_module.h"

namespace podaq::study_detail {

/// Runs the file on the test set.
/// @param trained  the network that the file was made of, for `agreement`.
/// @param whole    the network before anything was removed, for sizes.
[[nodiscard]] FileMeasurement measure_file(const std::filesystem::path& file, const Task& task, GraphModule& trained,
                                           const GraphModule& whole, const Dataset& test);

/// The task's figures of the network in a file, by name.
[[nodiscard]] std::map<std::string, double> figures_of(const Graph& graph, const Task& task);

/// The latencies of the user's own module (first) and of every file, batch 1, one thread, in interleaved rounds. They
/// get random numbers: no kernel's time depends on them.
[[nodiscard]] std::vector<Latency> time_files(std::span<const std::filesystem::path> files, const TaskNetwork& network);

}  // namespace podaq::study_detail
