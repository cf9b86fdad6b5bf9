#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "podaq/core/latency.h"
#include "podaq/study/evaluation.h"
#include "podaq/study/task.h"

namespace podaq {

/// What is trained: each strategy of the task with each seed. One strategy and seed make a point.
struct Study {
  Task task;                                        ///< Its strategies are the rows.
  std::vector<std::uint64_t> seeds = {1};           ///< Of data, initial weights and sample order; all different.
  std::vector<std::int32_t> confusion_groups = {};  ///< Groups whose confusion matrices the report shows.
  std::filesystem::path folder = "results/study";   ///< Receives everything.
  std::map<std::string, std::string> origins = {};  ///< Where a file says what: "rows.tiny" -> "study.toml:12".
};

/// What a file does and costs. All of it is read off the file itself.
struct FileMeasurement {
  Score all = {};                         ///< Over the whole test set.
  std::optional<Score> high_groups = {};  ///< Over groups >= the task's `high_group`; none where there are no groups.
  std::map<std::int32_t, Score> by_group = {};  ///< Empty where there are no groups.
  /// For each group (0 where there are none) how often class `row` was taken for class `column`: classes * classes
  /// numbers.
  std::map<std::int32_t, std::vector<std::int64_t>> confusion = {};
  double sparsity = 0;           ///< Share of the network's conv and linear weights that are 0 or gone in the file.
  std::int64_t parameters = 0;   ///< Trainable float parameters of the captured network.
  std::uint64_t file_bytes = 0;  ///< The whole file.
  double ratio = 0;              ///< 4 * parameters / file_bytes.
  double agreement = 1;          ///< Share of test samples on which network and file name the same class.
  std::map<std::string, std::uint64_t> section_bytes =
      {};                                      ///< Where the file's bytes go; "header" is all but sections.
  std::map<std::string, double> figures = {};  ///< The task's, by name.
};

/// A strategy trained with one seed.
struct PointResult {
  std::string strategy = {};                  ///< The row.
  std::uint64_t seed = 0;                     ///< Of data, initial weights and sample order.
  std::string recipe = {};                    ///< As TOML.
  std::string teacher = {};                   ///< As Teaching names it; empty: none.
  double shared_epochs = 0;                   ///< Dense epochs before its own.
  double own_epochs = 0;                      ///< Epochs that the recipe takes.
  std::int64_t steps = 0;                     ///< Optimizer steps of its own epochs.
  double seconds = 0;                         ///< Wall time of its own training, on one thread beside others.
  std::vector<double> validation = {};        ///< Validation accuracy after each of its own epochs.
  double validation_accuracy = 0;             ///< Of the chosen epoch.
  FileMeasurement measured = {};              ///< Of its file.
  Latency podaq = {};                         ///< Of the file: batch 1, one thread.
  Latency libtorch = {};                      ///< Of the user's own float module, in the same interleaved rounds.
  std::string host = {};                      ///< Where it was trained and timed.
  std::vector<std::string> class_names = {};  ///< Of the test set.
  std::string file_sha256 = {};               ///< Of the file, in hexadecimal.
  std::filesystem::path file = {};            ///< Where the file is.
};

/// A finished study.
struct StudyResult {
  std::string task = {};                      ///< The task's name.
  std::string description = {};               ///< The task's, one line.
  std::string host = {};                      ///< CPU, instruction set, LibTorch version, threads.
  double seconds = 0;                         ///< Wall time of this run; points found in the folder took none of it.
  std::vector<std::uint64_t> seeds = {};      ///< In the study's order.
  std::vector<std::string> strategies = {};   ///< In the study's order.
  std::vector<std::string> class_names = {};  ///< Of the test set.
  std::int32_t high_group = 0;                ///< As the task says.
  std::vector<std::int32_t> confusion_groups = {};  ///< As the study says.
  std::vector<PointResult> points = {};             ///< Strategy by strategy, each with all seeds in order.
};

/// How a study is run.
struct StudyOptions {
  int threads = 0;          ///< 1 to 1024; 0: as many as the machine has. Points train side by side, one thread each.
  bool time_again = false;  ///< Whether latencies in the folder are taken anew, as after a run on a busy machine.
};

/// `threads`, or as many as the machine has. Throws Error(invalid_argument) for a count out of range.
[[nodiscard]] int effective_threads(const StudyOptions& options);

/// A point before it is trained, for those who want to know what is ahead.
struct PlannedPoint {
  std::string strategy = {};        ///< The row.
  std::uint64_t seed = 0;           ///< Of data, initial weights and sample order.
  std::int64_t epochs = 0;          ///< Epochs of its own.
  std::int64_t trained_epochs = 0;  ///< Those that an earlier run left behind; all of them where it is done.
  double seconds = 0;               ///< What its training took; 0 where that is not known.
  bool done = false;                ///< Whether its result is in the folder.
};

/// What `run_study` would do. Points of the dense epochs that several points start from are among them, under the name
/// "shared". Throws as `run_study` does before any work.
[[nodiscard]] std::vector<PlannedPoint> plan_study(const Study& study);

/// Trains, converts, writes and measures each point that the folder does not hold yet, and reads the others from it.
/// A point's result does not depend on what else is trained, on threads, or on how often it was stopped.
///
/// Every result is kept in `folder`/points under the SHA-256 of all that it depends on (task identity, seed, training
/// options, recipe, teacher, versions of podaq and LibTorch), and training itself after each epoch; a run that is
/// killed goes on where it stopped. A strategy that fails does not keep others from being trained: the first failure is
/// thrown at the end. Shows progress with time left on stderr. Throws Error(cancelled) after Ctrl-C; Error, before any
/// work, for strategies without a name of their own or one that cannot name a file, a teacher that is none, a recipe
/// that does not fit the network, and a folder that cannot be written or that another process works in.
[[nodiscard]] StudyResult run_study(const Study& study, const StudyOptions& options = {});

}  // namespace podaq
