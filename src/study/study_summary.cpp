#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "podaq/study/study_report.h"
#include "study/study_rows.h"

namespace podaq {
namespace {

/// The points of one strategy, in the order of seeds.
struct RowPoints {
  std::vector<const PointResult*> points;
  bool is_dense = false;

  [[nodiscard]] const PointResult& first() const { return *points.front(); }
  [[nodiscard]] double epochs() const { return first().shared_epochs + first().own_epochs; }
  [[nodiscard]] bool is_distilled() const { return !first().teacher.empty(); }
};

template <typename FigureOf>
Statistic over_seeds(const RowPoints& row, const FigureOf& figure_of) {
  std::vector<double> numbers;
  for (const PointResult* point : row.points) numbers.push_back(static_cast<double>(figure_of(*point)));
  return statistic_of(numbers);
}

std::vector<RowPoints> rows_in(const StudyResult& result) {
  std::vector<RowPoints> rows;
  for (const std::string& strategy : result.strategies) {
    RowPoints row;
    for (const PointResult& point : result.points)
      if (point.strategy == strategy) row.points.push_back(&point);
    row.is_dense = study_detail::is_dense(Recipe::parse(row.first().recipe));
    rows.push_back(std::move(row));
  }
  return rows;
}

const RowPoints* dense_row_for(const RowPoints& row, const std::vector<RowPoints>& rows, bool distilled) {
  const RowPoints* best = nullptr;
  for (const RowPoints& other : rows) {
    if (&other == &row || !other.is_dense || other.is_distilled() != distilled) continue;
    const bool suffices = other.epochs() >= row.epochs();
    if (best == nullptr) {
      best = &other;
      continue;
    }
    const bool best_suffices = best->epochs() >= row.epochs();
    const bool shorter = other.epochs() < best->epochs();
    if (suffices ? !best_suffices || shorter : !best_suffices && !shorter) best = &other;
  }
  return best;
}

std::optional<PairedDifference> difference(const RowPoints& row, const std::vector<RowPoints>& rows, bool distilled) {
  if (row.is_dense && row.is_distilled() == distilled) return std::nullopt;
  const RowPoints* dense = dense_row_for(row, rows, distilled);
  if (dense == nullptr) return std::nullopt;
  PairedDifference paired{.reference = dense->first().strategy, .accuracy = {}, .high_groups = {}};
  std::vector<double> all;
  std::vector<double> high;
  for (std::size_t i = 0; i < row.points.size(); ++i) {
    const FileMeasurement& own = row.points[i]->measured;
    const FileMeasurement& other = dense->points[i]->measured;
    all.push_back(own.all.accuracy() - other.all.accuracy());
    if (own.high_groups && other.high_groups)
      high.push_back(own.high_groups->accuracy() - other.high_groups->accuracy());
  }
  paired.accuracy = statistic_of(all);
  if (!high.empty()) paired.high_groups = statistic_of(high);
  return paired;
}

RowSummary summary_of(const RowPoints& row, const std::vector<RowPoints>& rows) {
  RowSummary summary;
  summary.strategy = row.first().strategy;
  summary.teacher = row.first().teacher;
  summary.recipe = row.first().recipe;
  summary.epochs = row.epochs();
  const auto measured = [&](const auto& figure_of) {
    return over_seeds(row, [&](const PointResult& point) { return figure_of(point.measured); });
  };
  summary.accuracy = measured([](const FileMeasurement& file) { return file.all.accuracy(); });
  if (row.first().measured.high_groups)
    summary.high_groups = measured([](const FileMeasurement& file) { return file.high_groups->accuracy(); });
  for (const PointResult* point : row.points)
    for (const auto& [group, score] : point->measured.by_group) {
      summary.by_group[group].right += score.right;
      summary.by_group[group].total += score.total;
    }
  summary.sparsity = measured([](const FileMeasurement& file) { return file.sparsity; });
  summary.file_bytes = measured([](const FileMeasurement& file) { return file.file_bytes; });
  summary.ratio = measured([](const FileMeasurement& file) { return file.ratio; });
  summary.agreement = measured([](const FileMeasurement& file) { return file.agreement; });
  for (const auto& [name, value] : row.first().measured.figures)
    summary.figures[name] = measured([&](const FileMeasurement& file) { return file.figures.at(name); });
  for (const PointResult* point : row.points)
    for (const auto& [name, bytes] : point->measured.section_bytes)
      summary.section_bytes[name] = measured([&](const FileMeasurement& file) {
        const auto found = file.section_bytes.find(name);
        return found == file.section_bytes.end() ? 0 : found->second;
      });
  summary.podaq_us = over_seeds(row, [](const PointResult& point) { return point.podaq.median_us; });
  summary.libtorch_us = over_seeds(row, [](const PointResult& point) { return point.libtorch.median_us; });
  summary.speedup =
      over_seeds(row, [](const PointResult& point) { return point.libtorch.median_us / point.podaq.median_us; });
  summary.seconds = over_seeds(row, [](const PointResult& point) { return point.seconds; });
  summary.to_dense = difference(row, rows, false);
  if (row.is_distilled()) summary.to_distilled_dense = difference(row, rows, true);
  return summary;
}

void find_front(std::vector<RowSummary>& summaries) {
  const auto beats = [](const RowSummary& a, const RowSummary& b) {
    const bool no_worse = a.file_bytes.mean <= b.file_bytes.mean && a.accuracy.mean >= b.accuracy.mean;
    return no_worse && (a.file_bytes.mean < b.file_bytes.mean || a.accuracy.mean > b.accuracy.mean);
  };
  for (RowSummary& row : summaries)
    row.is_on_front = std::ranges::none_of(summaries, [&](const RowSummary& other) { return beats(other, row); });
}

}  // namespace

Statistic statistic_of(std::span<const double> numbers) {
  Statistic statistic{.count = std::ssize(numbers)};
  if (numbers.empty()) return statistic;
  const auto count = static_cast<double>(numbers.size());
  statistic.mean = std::accumulate(numbers.begin(), numbers.end(), 0.0) / count;
  if (numbers.size() == 1) return statistic;
  double squares = 0;
  for (const double number : numbers) squares += (number - statistic.mean) * (number - statistic.mean);
  statistic.deviation = std::sqrt(squares / (count - 1));
  return statistic;
}

std::vector<RowSummary> summarize(const StudyResult& result) {
  const std::vector<RowPoints> rows = rows_in(result);
  std::vector<RowSummary> summaries;
  for (const RowPoints& row : rows) summaries.push_back(summary_of(row, rows));
  find_front(summaries);
  return summaries;
}

}  // namespace podaq
