#include "study/study_rows.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "compress/stages.h"
#include "podaq/core/text.h"

namespace podaq::study_detail {
namespace {

// The grid's values, or one "as it is" where the recipe has no use for them.
template <typename Value>
std::vector<std::optional<Value>> choices(const std::vector<Value>& values, bool are_used) {
  if (!are_used || values.empty()) return {std::nullopt};
  return {values.begin(), values.end()};
}

Strategy row_of(const Strategy& strategy, std::optional<double> sparsity, std::optional<int> bits, double length) {
  Strategy row{.name = strategy.name, .recipe = lengthened(strategy.recipe, length)};
  if (sparsity) {
    row.recipe.prune->sparsity = *sparsity;
    row.name += concat("-s", *sparsity);
  }
  if (bits) {
    row.recipe.quantize->weight_bits = *bits;
    row.name += concat("-w", *bits);
  }
  if (length != 1) row.name += concat("-x", length);
  return row;
}

bool has_name(const std::vector<Strategy>& rows, const std::string& name) {
  return std::ranges::find(rows, name, &Strategy::name) != rows.end();
}

void add_dense_row(std::vector<Strategy>& rows, double epochs, const std::optional<Teaching>& teaching) {
  const bool exists = std::ranges::any_of(rows, [&](const Strategy& row) {
    return is_dense(row.recipe) && row.teaching.has_value() == teaching.has_value() &&
           total_epochs(row.recipe) >= epochs;
  });
  if (exists || epochs == 0) return;
  std::string name = teaching ? "dense-distilled" : "dense";
  if (has_name(rows, name)) name += concat("-", epochs, "-epochs");
  rows.insert(rows.begin(), {.name = name, .recipe = {.epochs = {.dense = epochs}}, .teaching = teaching});
}

}  // namespace

Recipe lengthened(Recipe recipe, double length) {
  for (const auto& [stage, epochs] : compress_detail::stage_lengths) recipe.epochs.*epochs *= length;
  return recipe;
}

std::vector<Strategy> rows_of(const Grid& grid, const Teaching& teaching) {
  std::vector<Strategy> rows;
  for (const Strategy& strategy : grid.strategies)
    for (const std::optional<double> sparsity : choices(grid.sparsities, strategy.recipe.prune.has_value()))
      for (const std::optional<int> bits : choices(grid.weight_bits, strategy.recipe.quantize.has_value()))
        for (const double length : grid.lengths)
          for (const bool distilled : grid.distilled) {
            Strategy row = row_of(strategy, sparsity, bits, length);
            if (distilled) {
              row.name += "-distilled";
              row.teaching = teaching;
            }
            rows.push_back(std::move(row));
          }
  return rows;
}

void add_dense_rows(std::vector<Strategy>& rows) {
  if (rows.empty()) return;
  double longest = 0;
  std::optional<Teaching> teaching;
  for (const Strategy& row : rows) {
    longest = std::max(longest, static_cast<double>(whole_epochs(row.recipe)));
    if (row.teaching && !teaching) teaching = row.teaching;
  }
  if (teaching) add_dense_row(rows, longest, teaching);
  add_dense_row(rows, longest, std::nullopt);
}

}  // namespace podaq::study_detail
