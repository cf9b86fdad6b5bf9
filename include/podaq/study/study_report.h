#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "podaq/study/study.h"

namespace podaq {

/// A figure over seeds.
struct Statistic {
  double mean = 0;         ///< Of all seeds.
  double deviation = 0;    ///< Sample standard deviation (n - 1); 0 for a single seed.
  std::int64_t count = 0;  ///< Seeds.
};

/// Mean and spread of `numbers`.
[[nodiscard]] Statistic statistic_of(std::span<const double> numbers);

/// What a row is compared with: the dense row of least length that trains for at least as many epochs in all (the
/// longest where none does), seed by seed.
struct PairedDifference {
  std::string reference = {};                 ///< The dense row.
  Statistic accuracy = {};                    ///< Row minus dense.
  std::optional<Statistic> high_groups = {};  ///< Likewise; none where there are no groups.
};

/// One strategy over all seeds.
struct RowSummary {
  std::string strategy = {};                            ///< The row.
  std::string teacher = {};                             ///< Empty: none.
  std::string recipe = {};                              ///< As TOML.
  double epochs = 0;                                    ///< In all, the shared ones included.
  Statistic accuracy = {};                              ///< Of the files on the whole test set.
  std::optional<Statistic> high_groups = {};            ///< Over groups >= the task's `high_group`.
  std::map<std::int32_t, Score> by_group = {};          ///< All seeds' answers together.
  Statistic sparsity = {};                              ///< As FileMeasurement has it.
  Statistic file_bytes = {};                            ///< Of the whole files.
  Statistic ratio = {};                                 ///< 4 * parameters / bytes.
  Statistic podaq_us = {};                              ///< Medians of the files' latencies.
  Statistic libtorch_us = {};                           ///< Medians of the float module's.
  Statistic speedup = {};                               ///< libtorch / podaq, of the same interleaved rounds.
  Statistic agreement = {};                             ///< Between networks and files.
  Statistic seconds = {};                               ///< Of training a point's own epochs.
  std::map<std::string, Statistic> figures = {};        ///< The task's.
  std::map<std::string, Statistic> section_bytes = {};  ///< Where the bytes are.
  std::optional<PairedDifference> to_dense = {};        ///< To the dense row without a teacher; none for that itself.
  std::optional<PairedDifference> to_distilled_dense = {};  ///< Distilled rows alone: to the distilled dense row.
  bool is_on_front = false;  ///< No other row has at most as many bytes at no less accuracy (means).
};

/// A row for each strategy, in the study's order.
[[nodiscard]] std::vector<RowSummary> summarize(const StudyResult& result);

/// The table that people read.
[[nodiscard]] std::string format_table(const StudyResult& result);

/// Everything as JSON: {"task", "host", "seconds", "seeds", "rows": [summaries], "points": [...]}; confusion matrices
/// of the chosen groups alone.
/// @param command  what was typed to get it.
[[nodiscard]] std::string to_json(const StudyResult& result, const std::string& command);

/// What a report shows.
struct ReportOptions {
  std::string command;  ///< What was typed to get it.
  bool plots = true;    ///< Whether gnuplot draws; without, tables alone.
};

/// Throws Error(unsupported) where a report with these options cannot be made, saying what to install.
void require_report_tools(const ReportOptions& options);

/// Everything as one HTML page that needs no other file or host and follows the browser's dark or light scheme.
[[nodiscard]] std::string to_html(const StudyResult& result, const ReportOptions& options);

}  // namespace podaq
