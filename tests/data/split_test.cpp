#include "podaq/data/split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "podaq/core/error.h"

namespace podaq {
namespace {

/// Cells of 1 to 12 rows, interleaved: label 0…2, group −2…6.
Dataset uneven_dataset() {
  Dataset dataset{.sample_shape = {1}, .class_names = {"a", "b", "c"}};
  for (int round = 0; round < 12; ++round) {
    for (std::int32_t cell = round; cell < 12; ++cell) {
      dataset.labels.push_back(cell % 3);
      dataset.groups.push_back(cell / 3 * 2 - 2);
      dataset.samples.push_back(static_cast<float>(dataset.samples.size()));
    }
  }
  return dataset;
}

TEST(StratifiedSplit, EveryCellIsSharedExactlyAndNothingIsLostOrDoubled) {
  const auto dataset = uneven_dataset();
  const auto parts = stratified_split(dataset, {.fractions = {0.6, 0.2, 0.2}, .seed = 2016});
  std::map<std::pair<int, int>, std::array<int, 4>> counts;
  std::set<std::int64_t> seen;
  for (std::size_t part = 0; part < 3; ++part) {
    EXPECT_TRUE(std::ranges::is_sorted(parts[part]));
    for (const auto row : parts[part]) {
      EXPECT_TRUE(seen.insert(row).second);
      const auto index = static_cast<std::size_t>(row);
      auto& cell = counts[{dataset.labels[index], dataset.groups[index]}];
      ++cell[part];
      ++cell[3];
    }
  }
  EXPECT_EQ(static_cast<std::int64_t>(seen.size()), dataset.size());
  ASSERT_EQ(counts.size(), 12U);
  for (const auto& [cell, count] : counts) {
    const auto total = static_cast<double>(count[3]);
    EXPECT_EQ(count[0], static_cast<int>(total * 0.6 + 0.5));
    EXPECT_EQ(count[0] + count[1], static_cast<int>(total * 0.8 + 0.5));
  }
}

TEST(StratifiedSplit, SameSeedSamePartsOtherSeedOthers) {
  const auto dataset = uneven_dataset();
  const SplitOptions options{.fractions = {0.5, 0.25}, .seed = 1};
  EXPECT_EQ(stratified_split(dataset, options), stratified_split(dataset, options));
  auto other = options;
  other.seed = 2;
  EXPECT_NE(stratified_split(dataset, options), stratified_split(dataset, other));
}

TEST(StratifiedSplit, ACellIsDealtTheSameWhateverStandsBesideIt) {
  const auto dataset = uneven_dataset();
  std::vector<std::int64_t> rows_of_last_cell;
  for (std::int64_t row = 0; row < dataset.size(); ++row) {
    const auto index = static_cast<std::size_t>(row);
    if (dataset.labels[index] == 2 && dataset.groups[index] == 4) rows_of_last_cell.push_back(row);
  }
  const SplitOptions options{.fractions = {0.5}, .seed = 3};
  const auto alone = subset(dataset, rows_of_last_cell);
  std::set<std::int64_t> expected;
  const auto dealt_alone = stratified_split(alone, options)[0];
  for (const auto row : dealt_alone) {
    expected.insert(rows_of_last_cell[static_cast<std::size_t>(row)]);
  }
  ASSERT_EQ(expected.size(), 6U);
  const auto together = stratified_split(dataset, options)[0];
  for (const auto row : rows_of_last_cell) {
    EXPECT_EQ(std::ranges::binary_search(together, row), expected.contains(row));
  }
}

TEST(StratifiedSplit, RefusesImpossibleFractions) {
  const auto dataset = uneven_dataset();
  for (const std::vector<double>& fractions :
       {std::vector<double>{}, {0.5, 0.0}, {-0.1}, {1.5}, {0.7, 0.7}, {std::nan("")}}) {
    EXPECT_THROW((void)stratified_split(dataset, {.fractions = fractions}), Error);
  }
}

TEST(StratifiedSplit, AnEmptyDataSetHasEmptyParts) {
  const auto parts = stratified_split(Dataset{.sample_shape = {1}}, {.fractions = {0.5, 0.5}});
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_TRUE(parts[0].empty() && parts[1].empty());
}

}  // namespace
}  // namespace podaq
