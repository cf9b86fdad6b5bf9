#include <fmt/format.h>

#include <cmath>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "podaq/core/progress.h"
#include "podaq/core/version.h"
#include "podaq/study/study_report.h"
#include "study/gnuplot.h"
#include "study/html_table.h"
#include "study/html_text.h"
#include "study/report_text.h"
#include "study/study_plots.h"

namespace podaq {
namespace {

using study_detail::grouped_digits;
using study_detail::html_escaped;
using study_detail::HtmlTable;
using study_detail::percent;

// Series' colours are told apart by people who see colours otherwise, too (after Okabe & Ito); signs differ as well.
constexpr const char* style = R"(<style>
:root { color-scheme: light dark; --page: #ffffff; --text: #1b1b1b; --grid: #cfcfcf; --line: #b5b5b5; --heat: #4f8fd6;
  --series-1: #1b1b1b; --series-2: #b84f00; --series-3: #0072b2; --series-4: #00795a; --series-5: #a8508a;
  --series-6: #8a6d00; }
@media (prefers-color-scheme: dark) { :root { --page: #16181b; --text: #e6e6e6; --grid: #3c4045; --line: #565b61;
  --heat: #2f6fb5; --series-1: #e6e6e6; --series-2: #ff9a4d; --series-3: #66b8ee; --series-4: #3fc79f;
  --series-5: #e29bc9; --series-6: #e5c548; } }
body { background: var(--page); color: var(--text); font: 15px/1.5 sans-serif; max-width: 1100px; margin: 2em auto;
  padding: 0 1em; }
svg { max-width: 100%; height: auto; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; margin: 1em 0; }
caption { text-align: left; font-weight: bold; padding: .3em 0; }
th, td { padding: .25em .6em; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
tbody th { text-align: left; font-weight: normal; }
.shaded { background: color-mix(in srgb, var(--heat) calc(var(--share) * 100%), transparent); }
pre { overflow-x: auto; font-size: 13px; }
</style>
)";

std::string whole_number(double number) {
  return grouped_digits(static_cast<std::uint64_t>(std::llround(number)));
}

std::string spread_percent(const Statistic& statistic) {
  if (statistic.count == 1) return fmt::format("{:.2f}", 100 * statistic.mean);
  return fmt::format("{:.2f} ± {:.2f}", 100 * statistic.mean, 100 * statistic.deviation);
}

std::string difference_text(const std::optional<PairedDifference>& difference) {
  if (!difference) return "–";
  return fmt::format("{} ({})", study_detail::points(difference->accuracy), difference->reference);
}

std::string heading(const StudyResult& result, const ReportOptions& options) {
  const FileMeasurement& first = result.points.front().measured;
  std::string seeds;
  for (const std::uint64_t seed : result.seeds) seeds += (seeds.empty() ? "" : ", ") + std::to_string(seed);
  std::string html =
      fmt::format("<h1>{}</h1>\n<p>{}</p>\n<ul>\n", html_escaped(result.task), html_escaped(result.description));
  const auto item = [&](const std::string& text) { html += "<li>" + html_escaped(text) + "</li>\n"; };
  item(fmt::format("{} test samples of {} classes; {} parameters, {} bytes as float", first.all.total,
                   result.class_names.size(), whole_number(static_cast<double>(first.parameters)),
                   whole_number(4.0 * static_cast<double>(first.parameters))));
  item("seeds: " + seeds);
  item("machine: " + result.host);
  item(fmt::format("made by podaq {}: {}", version, options.command));
  return html + "</ul>\n";
}

std::string row_name(std::span<const RowSummary> rows, std::size_t index) {
  return fmt::format("{} {}", index + 1, rows[index].strategy);
}

std::string main_table(const StudyResult& result, std::span<const RowSummary> rows) {
  const bool grouped = rows.front().high_groups.has_value();
  std::vector<std::string> columns = {"row", "epochs", "accuracy in %"};
  if (grouped) columns.push_back(fmt::format("at ≥ {} dB", result.high_group));
  for (const char* column : {"points to dense", "points to distilled dense", "sparsity in %", "bytes", "× smaller",
                             "µs", "LibTorch float µs", "× faster", "agreement in %"})
    columns.emplace_back(column);
  for (const auto& [name, figure] : rows.front().figures) columns.push_back(name);
  columns.emplace_back("front");
  HtmlTable table("All rows: means over seeds ± standard deviation", columns);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const RowSummary& row = rows[i];
    table.row(row_name(rows, i)).cell(fmt::format("{}", row.epochs)).cell(spread_percent(row.accuracy));
    if (grouped) table.cell(spread_percent(*row.high_groups));
    table.cell(difference_text(row.to_dense)).cell(difference_text(row.to_distilled_dense));
    table.cell(fmt::format("{:.2f}", 100 * row.sparsity.mean)).cell(whole_number(row.file_bytes.mean));
    table.cell(fmt::format("{:.1f}", row.ratio.mean)).cell(fmt::format("{:.1f}", row.podaq_us.mean));
    table.cell(fmt::format("{:.1f}", row.libtorch_us.mean)).cell(fmt::format("{:.1f}", row.speedup.mean));
    table.cell(fmt::format("{:.2f}", 100 * row.agreement.mean));
    for (const auto& [name, figure] : row.figures) table.cell(fmt::format("{:.5f}", figure.mean));
    table.cell(row.is_on_front ? "●" : "");
  }
  return std::move(table).html();
}

std::string group_table(std::span<const RowSummary> rows) {
  std::vector<std::string> columns = {"row"};
  for (const auto& [group, score] : rows.front().by_group) columns.push_back(std::to_string(group));
  HtmlTable table("Accuracy in % at each SNR in dB, all seeds together, with Wilson's 95 % interval", columns);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    table.row(row_name(rows, i));
    for (const auto& [group, score] : rows[i].by_group) {
      const Interval band = confidence_interval(score);
      table.cell(fmt::format("{:.1f} ({:.1f}–{:.1f})", 100 * score.accuracy(), 100 * band.lowest, 100 * band.highest));
    }
  }
  return std::move(table).html();
}

std::string section_table(std::span<const RowSummary> rows) {
  std::set<std::string> names;
  for (const RowSummary& row : rows)
    for (const auto& [name, bytes] : row.section_bytes) names.insert(name);
  std::vector<std::string> columns = {"row"};
  columns.insert(columns.end(), names.begin(), names.end());
  columns.emplace_back("whole file");
  HtmlTable table("Where the bytes are: sections of the files, means over seeds", columns);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    table.row(row_name(rows, i));
    for (const std::string& name : names) {
      const auto found = rows[i].section_bytes.find(name);
      table.cell(found == rows[i].section_bytes.end() ? "" : whole_number(found->second.mean));
    }
    table.cell(whole_number(rows[i].file_bytes.mean));
  }
  return std::move(table).html();
}

std::string point_table(const StudyResult& result) {
  HtmlTable table("Every network trained",
                  {"network", "seed", "teacher", "shared epochs", "own epochs", "steps", "training time",
                   "validation in %", "accuracy in %", "95 % interval", "bytes", "µs (10 %–90 %)", "machine", "file"});
  for (const PointResult& point : result.points) {
    const Interval band = confidence_interval(point.measured.all);
    table.row(point.strategy).cell(std::to_string(point.seed)).cell(point.teacher);
    table.cell(fmt::format("{}", point.shared_epochs)).cell(fmt::format("{}", point.own_epochs));
    table.cell(std::to_string(point.steps));
    table.cell(format_duration(std::chrono::duration<double>(point.seconds)));
    table.cell(fmt::format("{:.2f}", 100 * point.validation_accuracy));
    table.cell(fmt::format("{:.2f}", 100 * point.measured.all.accuracy()));
    table.cell(fmt::format("{:.2f}–{:.2f}", 100 * band.lowest, 100 * band.highest));
    table.cell(grouped_digits(point.measured.file_bytes));
    table.cell(fmt::format("{:.1f} ({:.1f}–{:.1f})", point.podaq.median_us, point.podaq.p10_us, point.podaq.p90_us));
    table.cell(point.host).cell(point.file.filename().string());
  }
  return std::move(table).html();
}

// All seeds' answers together; empty where the group is unknown.
std::vector<std::int64_t> pooled_confusion(const StudyResult& result, const std::string& strategy, std::int32_t group) {
  std::vector<std::int64_t> sum;
  for (const PointResult& point : result.points) {
    const auto found = point.measured.confusion.find(group);
    if (point.strategy != strategy || found == point.measured.confusion.end()) continue;
    sum.resize(found->second.size());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += found->second[i];
  }
  return sum;
}

std::string confusion_table(const StudyResult& result, const std::string& caption,
                            std::span<const std::int64_t> counts) {
  const std::size_t classes = result.class_names.size();
  std::vector<std::string> columns = {"sent \\ taken for"};
  columns.insert(columns.end(), result.class_names.begin(), result.class_names.end());
  HtmlTable table(caption, columns);
  for (std::size_t truth = 0; truth < classes; ++truth) {
    const auto row = counts.subspan(truth * classes, classes);
    std::int64_t total = 0;
    for (const std::int64_t count : row) total += count;
    table.row(result.class_names[truth]);
    for (const std::int64_t count : row) {
      const double share = total == 0 ? 0.0 : static_cast<double>(count) / static_cast<double>(total);
      table.shaded_cell(count == 0 ? "" : fmt::format("{:.0f}", 100 * share), share);
    }
  }
  return std::move(table).html();
}

std::string confusion_matrices(const StudyResult& result, std::span<const RowSummary> rows) {
  std::string html;
  for (const std::size_t i : study_detail::rows_to_show(rows)) {
    std::string matrices;
    for (const std::int32_t group : result.confusion_groups) {
      const std::vector<std::int64_t> counts = pooled_confusion(result, rows[i].strategy, group);
      if (counts.empty()) continue;
      const std::string where = rows[i].by_group.empty() ? "" : fmt::format(" at {} dB", group);
      matrices += confusion_table(
          result, fmt::format("{}{}: % of each class, all seeds together", row_name(rows, i), where), counts);
    }
    if (!matrices.empty())
      html += fmt::format("<details><summary>{}</summary>\n{}</details>\n", html_escaped(row_name(rows, i)), matrices);
  }
  return html.empty() ? "" : "<h2>Confusion matrices</h2>\n" + html;
}

std::string recipes(std::span<const RowSummary> rows) {
  std::string html = "<h2>Recipes</h2>\n";
  for (std::size_t i = 0; i < rows.size(); ++i)
    html += fmt::format("<details><summary>{}</summary><pre>{}</pre></details>\n", html_escaped(row_name(rows, i)),
                        html_escaped(rows[i].recipe));
  return html;
}

std::string plots(std::span<const RowSummary> rows) {
  std::string html = "<h2>Accuracy against size and time</h2>\n";
  html += study_detail::plot_accuracy_over_bytes(rows) + "\n" + study_detail::plot_accuracy_over_latency(rows) + "\n";
  if (!rows.front().by_group.empty())
    html += "<h2>Accuracy against SNR</h2>\n" + study_detail::plot_accuracy_over_groups(rows) + "\n";
  return html;
}

constexpr const char* explanations =
    "<p>Accuracy: each file run by podaq on the whole test set. Points to dense: accuracy minus that of the dense row "
    "in parentheses, seed by seed; it trained for at least as many epochs. × smaller: 4 bytes a parameter over the "
    "bytes of the whole file. Latency: medians, batch 1, one thread, interleaved with LibTorch on the float module. "
    "Agreement: test samples that the trained network and its file give the same class. Front: no row is as small and "
    "as accurate.</p>\n";

}  // namespace

void require_report_tools(const ReportOptions& options) {
  if (options.plots) study_detail::require_gnuplot();
}

std::string to_html(const StudyResult& result, const ReportOptions& options) {
  const std::vector<RowSummary> rows = summarize(result);
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n{}</head>\n<body>\n",
      html_escaped(result.task), style);
  html += heading(result, options) + main_table(result, rows) + explanations;
  if (options.plots) html += plots(rows);
  if (!rows.front().by_group.empty())
    html += "<details><summary>Numbers at each SNR</summary>\n" + group_table(rows) + "</details>\n";
  html += confusion_matrices(result, rows);
  html += "<h2>Where the bytes are</h2>\n" + section_table(rows);
  html +=
      "<h2>Budgets</h2>\n<details><summary>Every network trained</summary>\n" + point_table(result) + "</details>\n";
  return html + recipes(rows) + "</body>\n</html>\n";
}

}  // namespace podaq
