#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "podaq/study/study_report.h"
#include "study/report_text.h"

namespace podaq {
std::string format_table(const StudyResult& result) {
  const std::vector<RowSummary> rows = summarize(result);
  const FileMeasurement& first = result.points.front().measured;
  std::size_t width = 8;
  for (const RowSummary& row : rows) width = std::max(width, row.strategy.size());
  std::string out = fmt::format("{}: {} test samples, {} parameters ({} bytes as float), {} seeds\n{}\n\n", result.task,
                                first.all.total, first.parameters,
                                study_detail::grouped_digits(4 * static_cast<std::uint64_t>(first.parameters)),
                                result.seeds.size(), result.host);
  auto to = std::back_inserter(out);
  fmt::format_to(to, "{:<{}} {:>7} {:>9} {:>15} {:>9} {:>10} {:>9} {:>9} {:>8}", "strategy", width, "epochs",
                 "accuracy", "to dense", "sparsity", "bytes", "smaller", "podaq us", "faster");
  for (const auto& [name, figure] : first.figures) fmt::format_to(to, " {:>12}", name);
  out += '\n';
  for (const RowSummary& row : rows) {
    fmt::format_to(to, "{:<{}} {:>7} {:>9} {:>15} {:>9} {:>10} {:>8.1f}x {:>9.1f} {:>7.1f}x", row.strategy, width,
                   row.epochs, study_detail::percent(row.accuracy.mean),
                   row.to_dense ? study_detail::points(row.to_dense->accuracy) : "-",
                   study_detail::percent(row.sparsity.mean),
                   study_detail::grouped_digits(static_cast<std::uint64_t>(std::llround(row.file_bytes.mean))),
                   row.ratio.mean, row.podaq_us.mean, row.speedup.mean);
    for (const auto& [name, figure] : row.figures) fmt::format_to(to, " {:>12.5f}", figure.mean);
    out += row.is_on_front ? "  *\n" : "\n";
  }
  out +=
      "\nMeans over seeds. To dense: points of accuracy against the dense row of the same seed, ± the standard\n"
      "deviation over seeds. *: no row is as small and as accurate.\n";
  return out;
}

}  // namespace podaq
