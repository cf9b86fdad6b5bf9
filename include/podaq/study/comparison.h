#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "podaq/study/study.h"
#include "podaq/study/task.h"

namespace podaq {

/// A finished comparison.
struct Comparison {
  std::string task;               ///< The task's name.
  std::string host;               ///< CPU, instruction set, LibTorch version, threads.
  std::uint64_t seed = 0;         ///< Of data, initial weights and sample order.
  double seconds = 0;             ///< Wall time of data, training, evaluation and timing.
  std::int64_t test_frames = 0;   ///< Samples of the test set.
  std::int64_t parameters = 0;    ///< Trainable float parameters of the captured network.
  std::int32_t high_group = 0;    ///< As the task says.
  std::vector<PointResult> rows;  ///< One per strategy.
};

/// How a comparison is run.
struct ComparisonOptions {
  std::uint64_t seed = 1;  ///< Of data, initial weights and sample order.
  int threads = 0;  ///< 1 to 1024; 0: as many as the machine has. Strategies train side by side, one thread each.
  std::filesystem::path folder = "results";  ///< Receives the files of strategies that name none.
};

/// A study (run_study) of one seed in which all strategies train for equally many epochs: trains the shared dense
/// epochs, then each strategy from that same network, converts, writes and measures the files. What it keeps until all
/// are done, so that a run that was stopped goes on, lies in a folder beside the first file, named like it with
/// ".training" at the end. Throws as run_study does; where the files cannot be written, Error(io) before any work.
[[nodiscard]] Comparison compare_strategies(const Task& task, const ComparisonOptions& options);

/// The table that people read.
[[nodiscard]] std::string format_table(const Comparison& comparison);

/// The same as JSON: {"host", "seed", "seconds", "test_frames", "rows": [...]}; see README.
[[nodiscard]] std::string to_json(const Comparison& comparison);

/// Writes `to_json` to `path`, whole or not at all.
void write_json(const Comparison& comparison, const std::filesystem::path& path);

}  // namespace podaq
