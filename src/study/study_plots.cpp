#include "study/study_plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <vector>

#include "study/gnuplot.h"
#include "study/study_rows.h"

namespace podaq::study_detail {
namespace {

constexpr const char* common_settings =
    "set border lc rgb '#000000'\nset grid lc rgb '#0000ff' lt 1 lw 0.5\nset tics nomirror\n"
    "set ylabel 'accuracy in %'\n";

/// A plot with a point for each row.
struct RowPlot {
  std::string x_label;
  std::function<double(const RowSummary&)> x;
  PlotText text;
};

// From left to right, each row that no other beats in x and accuracy.
std::vector<const RowSummary*> front_of(std::span<const RowSummary> rows, const RowPlot& plot) {
  std::vector<const RowSummary*> sorted;
  for (const RowSummary& row : rows) sorted.push_back(&row);
  std::ranges::sort(sorted, [&](const RowSummary* a, const RowSummary* b) {
    return plot.x(*a) < plot.x(*b) || (plot.x(*a) == plot.x(*b) && a->accuracy.mean > b->accuracy.mean);
  });
  std::vector<const RowSummary*> front;
  for (const RowSummary* row : sorted)
    if (front.empty() || row->accuracy.mean > front.back()->accuracy.mean) front.push_back(row);
  return front;
}

std::string plot_rows(std::span<const RowSummary> rows, const RowPlot& plot) {
  std::string script = common_settings;
  auto to = std::back_inserter(script);
  fmt::format_to(to,
                 "set logscale x\nset format x '%.0s%c'\nset xlabel {}\nset key outside bottom center horizontal\nset "
                 "offsets graph 0.06, "
                 "graph 0.06, 0, 0\n",
                 gnuplot_quoted(plot.x_label));
  script += "$rows << END\n";
  for (std::size_t i = 0; i < rows.size(); ++i)
    fmt::format_to(to, "{} {} {} {}\n", plot.x(rows[i]), 100 * rows[i].accuracy.mean, 100 * rows[i].accuracy.deviation,
                   i + 1);
  script += "END\n$front << END\n";
  for (const RowSummary* row : front_of(rows, plot))
    fmt::format_to(to, "{} {}\n", plot.x(*row), 100 * row->accuracy.mean);
  script +=
      "END\n"
      "plot $front using 1:2 with lines lw 2 lc rgb '#020000' title 'front', "
      "$rows using 1:($2-$3):(0):(2*$3) with vectors nohead lc rgb '#010000' notitle, "
      "$rows using 1:2 with points pt 7 ps 0.6 lc rgb '#010000' title 'rows of the table (mean, ± deviation over "
      "seeds)', "
      "$rows using 1:2:4 with labels offset 0,0.8 tc rgb '#000000' notitle\n";
  return plot_svg(script, plot.text);
}

}  // namespace

std::vector<std::size_t> rows_to_show(std::span<const RowSummary> rows) {
  constexpr std::size_t most = 6;
  std::vector<std::size_t> front;
  std::vector<std::size_t> shown;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].teacher.empty() && is_dense(Recipe::parse(rows[i].recipe)))
      shown.push_back(i);
    else if (rows[i].is_on_front)
      front.push_back(i);
  std::ranges::sort(front, std::greater(), [&](std::size_t i) { return rows[i].accuracy.mean; });
  shown.insert(shown.end(), front.begin(), front.end());
  if (shown.size() > most) shown.resize(most);
  return shown;
}

std::string plot_accuracy_over_bytes(std::span<const RowSummary> rows) {
  return plot_rows(rows, {.x_label = "bytes of the file",
                          .x = [](const RowSummary& row) { return row.file_bytes.mean; },
                          .text = {.id = "bytes",
                                   .title = "Accuracy against bytes",
                                   .description = "Each row of the table, and the rows that no other beats in both."}});
}

std::string plot_accuracy_over_latency(std::span<const RowSummary> rows) {
  return plot_rows(rows, {.x_label = "latency in microseconds, batch 1, one thread",
                          .x = [](const RowSummary& row) { return row.podaq_us.mean; },
                          .text = {.id = "latency",
                                   .title = "Accuracy against latency",
                                   .description = "Each row of the table, and the rows that no other beats in both."}});
}

std::string plot_accuracy_over_groups(std::span<const RowSummary> rows) {
  const std::vector<std::size_t> shown = rows_to_show(rows);
  std::string script = common_settings;
  auto to = std::back_inserter(script);
  script +=
      "set xlabel 'SNR in dB'\nset key outside bottom center horizontal\nset style fill transparent solid 0.18 "
      "noborder\n";
  for (const std::size_t i : shown) {
    fmt::format_to(to, "$row{} << END\n", i);
    for (const auto& [group, score] : rows[i].by_group) {
      const Interval band = confidence_interval(score);
      fmt::format_to(to, "{} {} {} {}\n", group, 100 * score.accuracy(), 100 * band.lowest, 100 * band.highest);
    }
    script += "END\n";
  }
  for (std::size_t k = 0; k < shown.size(); ++k)
    fmt::format_to(to, "{} $row{} using 1:3:4 with filledcurves lc rgb '#0{}0000' notitle", k == 0 ? "plot" : ",",
                   shown[k], k + 1);
  for (std::size_t k = 0; k < shown.size(); ++k)
    fmt::format_to(to, ", $row{0} using 1:2 with linespoints pt {1} ps 0.6 lc rgb '#0{2}0000' title {3}", shown[k],
                   k + 4, k + 1, gnuplot_quoted(fmt::format("{} {}", shown[k] + 1, rows[shown[k]].strategy)));
  return plot_svg(script, {.id = "groups",
                           .title = "Accuracy against SNR",
                           .description = "Accuracy of the files at each SNR with Wilson's 95 % band, all seeds "
                                          "together; the numbers are in a table below."});
}

}  // namespace podaq::study_detail
