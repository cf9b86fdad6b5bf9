#include "image_classification/goldbarg_task.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "podaq/compress/compressor.h"
#include "podaq/core/error.h"
#include "podaq/study/comparison.h"
#include "support/temporary_folder.h"

namespace podaq::images {
namespace {

TEST(GoldbargTask, IsTheThesissTableOnAShareOfTheImages) {
  const Task task = make_goldbarg_task({}, {.epochs = 2, .share = 0.1});
  EXPECT_EQ(task.strategies.size(), 16U);
  const TaskNetwork network = task.make_network(1);
  std::set<std::string> names;
  for (const Strategy& strategy : task.strategies) {
    names.insert(strategy.name);
    EXPECT_EQ(total_epochs(strategy.recipe), 2);
    EXPECT_NO_THROW(Compressor(network.captured, strategy.recipe)) << strategy.name;
  }
  EXPECT_EQ(names.size(), 16U);
  EXPECT_TRUE(names.contains("alpha0-float") && names.contains("alpha0.25-3bits"));
  const TaskData data = task.load_data(1, 1);
  EXPECT_EQ(data.train.size(), 5400);
  EXPECT_EQ(data.test.size(), 10000);
}

TEST(GoldbargTask, RefusesOptionsOutsideTheirRange) {
  EXPECT_THROW(static_cast<void>(make_goldbarg_task({}, {.epochs = 0})), Error);
  EXPECT_THROW(static_cast<void>(make_goldbarg_task({}, {.share = 0})), Error);
  EXPECT_THROW(static_cast<void>(make_goldbarg_task({}, {.share = 1.5})), Error);
}

// The whole way from training to the file, for the ends of the table.
TEST(GoldbargTask, TrainsAndWritesFilesThatComputeTheSame) {
  Task task = make_goldbarg_task({}, {.epochs = 1, .share = 0.005});
  task.strategies = {task.strategies.at(3), task.strategies.at(13)};
  task.load_data = [load = task.load_data](std::uint64_t seed, int threads) {
    TaskData data = load(seed, threads);
    std::vector<std::int64_t> few(200);
    for (std::size_t i = 0; i < few.size(); ++i) few[i] = static_cast<std::int64_t>(i);
    data.validation = subset(data.validation, few);
    data.test = subset(data.test, few);
    return data;
  };
  const test::TemporaryFolder folder;
  const Comparison comparison = compare_strategies(task, {.threads = 1, .folder = folder.path()});
  ASSERT_EQ(comparison.rows.size(), 2U);
  EXPECT_EQ(comparison.rows[1].strategy, "alpha0.75-8bits");
  EXPECT_GT(comparison.rows[1].measured.sparsity, comparison.rows[0].measured.sparsity);
  for (const PointResult& row : comparison.rows) EXPECT_EQ(row.measured.agreement, 1) << row.strategy;
}

}  // namespace
}  // namespace podaq::images
