#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "podaq/core/latency.h"
#include "podaq/study/evaluation.h"
#include "podaq/study/task.h"

namespace podaq {

/// One strategy's outcome. Every figure is read off the file itself.
struct ComparisonRow {
  std::string strategy;              ///< Its name.
  Score all;                         ///< Over the whole test set.
  std::optional<Score> high_groups;  ///< Over groups >= the task's `high_group`; none where there are no groups.
  double sparsity = 0;               ///< Share of the network's conv and linear weights that are 0 or gone in the file.
  std::uint64_t file_bytes = 0;      ///< The whole file.
  double ratio = 0;                  ///< 4 * parameters / file_bytes.
  Latency podaq;                     ///< Of the file: batch 1, one thread.
  Latency libtorch;                  ///< Of the user's own float module, likewise.
  double agreement = 1;              ///< Share of test samples on which network and file name the same class.
  double validation_accuracy = 0;    ///< Of the chosen epoch.
  std::filesystem::path file;        ///< Where the file is.
};

/// A finished comparison.
struct Comparison {
  std::string task;                 ///< The task's name.
  std::string host;                 ///< CPU, instruction set, LibTorch version, threads.
  std::uint64_t seed = 0;           ///< Of data, initial weights and sample order.
  double seconds = 0;               ///< Wall time of data, training, evaluation and timing.
  std::int64_t test_frames = 0;     ///< Samples of the test set.
  std::int64_t parameters = 0;      ///< Trainable float parameters of the captured network.
  std::int32_t high_group = 0;      ///< As the task says.
  std::vector<ComparisonRow> rows;  ///< One per strategy.
};

/// How a comparison is run.
struct ComparisonOptions {
  std::uint64_t seed = 1;  ///< Of data, initial weights and sample order.
  int threads = 0;  ///< 1 to 1024; 0: as many as the machine has. Strategies train side by side, one thread each.
  std::filesystem::path folder = "results";  ///< Receives the files of strategies that name none.
};

/// Trains the shared dense epochs, then each strategy from that same network, converts, writes and measures the files.
/// Shows progress with time left on stderr. Throws Error(cancelled) after Ctrl-C; files appear whole or not at all.
/// Where they cannot be written, throws Error(io) before any work.
[[nodiscard]] Comparison compare_strategies(const Task& task, const ComparisonOptions& options);

/// The table that people read.
[[nodiscard]] std::string format_table(const Comparison& comparison);

/// The same as JSON: {"host", "seed", "seconds", "test_frames", "rows": [...]}; see README.
[[nodiscard]] std::string to_json(const Comparison& comparison);

/// Writes `to_json` to `path`, whole or not at all.
void write_json(const Comparison& comparison, const std::filesystem::path& path);

}  // namespace podaq
