#include "podaq/data/split.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "podaq/data/counter_random.h"

namespace podaq {

namespace {

using Cell = std::pair<std::int32_t, std::int32_t>;

void validate(const SplitOptions& options) {
  const auto refuse = [](const std::string& fault) {
    throw Error(ErrorCode::invalid_argument, concat("SplitOptions.fractions: ", fault));
  };
  if (options.fractions.empty()) refuse("empty; give at least one share");
  double sum = 0;
  for (const double fraction : options.fractions) {
    if (!(fraction > 0 && fraction <= 1)) refuse(concat(fraction, " is outside (0, 1]"));
    sum += fraction;
  }
  if (sum > 1 + 1e-9) refuse(concat("their sum is ", sum, "; it may be 1 at most"));
}

std::map<Cell, std::vector<std::int64_t>> cells_of(const Strata& strata) {
  if (!strata.groups.empty() && strata.groups.size() != strata.labels.size()) {
    throw Error(ErrorCode::invalid_argument, concat("Strata.groups holds ", strata.groups.size(), " entries for ",
                                                    strata.labels.size(), " labels; give one each, or none"));
  }
  std::map<Cell, std::vector<std::int64_t>> cells;
  for (std::size_t row = 0; row < strata.labels.size(); ++row) {
    const auto group = strata.groups.empty() ? 0 : strata.groups[row];
    cells[{strata.labels[row], group}].push_back(static_cast<std::int64_t>(row));
  }
  return cells;
}

void shuffle(std::vector<std::int64_t>& rows, const Cell& cell, std::uint64_t seed) {
  CounterRandom random(
      {.seed = seed, .words = {static_cast<std::uint32_t>(cell.first), static_cast<std::uint32_t>(cell.second), 0}});
  for (std::size_t last = rows.size(); last > 1; --last) {
    std::swap(rows[last - 1], rows[random.below(static_cast<std::uint32_t>(last))]);
  }
}

}  // namespace

std::vector<std::vector<std::int64_t>> stratified_split(const Strata& strata, const SplitOptions& options) {
  validate(options);
  std::vector<std::vector<std::int64_t>> parts(options.fractions.size());
  for (auto& [cell, rows] : cells_of(strata)) {
    shuffle(rows, cell, options.seed);
    const auto count = static_cast<double>(rows.size());
    double cumulative = 0;
    std::size_t begin = 0;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      cumulative += options.fractions[part];
      const auto end = std::min(static_cast<std::size_t>(std::floor(count * cumulative + 0.5)), rows.size());
      parts[part].insert(parts[part].end(), rows.begin() + static_cast<std::ptrdiff_t>(begin),
                         rows.begin() + static_cast<std::ptrdiff_t>(end));
      begin = end;
    }
  }
  for (auto& part : parts) std::ranges::sort(part);
  return parts;
}

std::vector<std::vector<std::int64_t>> stratified_split(const Dataset& dataset, const SplitOptions& options) {
  return stratified_split(Strata{.labels = dataset.labels, .groups = dataset.groups}, options);
}

}  // namespace podaq
