#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "podaq/study/study_report.h"

// The plots of a study's report, each an <svg> element (see plot_svg).

namespace podaq::study_detail {

/// Accuracy over bytes of the file, in a logarithmic scale, numbered like the table, with the front drawn.
[[nodiscard]] std::string plot_accuracy_over_bytes(std::span<const RowSummary> rows);

/// Accuracy over latency likewise.
[[nodiscard]] std::string plot_accuracy_over_latency(std::span<const RowSummary> rows);

/// Accuracy over groups with its 95 % band, of up to six rows: those without a teacher that train densely, then the
/// front from its most accurate row on.
[[nodiscard]] std::string plot_accuracy_over_groups(std::span<const RowSummary> rows);

/// The rows that `plot_accuracy_over_groups` shows, and whose confusion matrices reports show: indices.
[[nodiscard]] std::vector<std::size_t> rows_to_show(std::span<const RowSummary> rows);

}  // namespace podaq::study_detail
