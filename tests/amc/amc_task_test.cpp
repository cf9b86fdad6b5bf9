#include "amc/amc_task.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "podaq/core/error.h"
#include "podaq/study/comparison.h"
#include "support/temporary_folder.h"

namespace podaq::amc {
namespace {

TEST(AmcTask, KeepsTrainingValidationAndTestFramesApart) {
  const TaskData data = make_task({.scale = 0.02}).load_data(1, 2);
  EXPECT_EQ(data.train.size(), 11 * 20 * 4);
  EXPECT_EQ(data.validation.size(), 11 * 20);
  EXPECT_EQ(data.test.size(), 11 * 20 * 2);
  const auto frame = [](const Dataset& set) { return std::vector<float>(set.sample(0).begin(), set.sample(0).end()); };
  EXPECT_NE(frame(data.train), frame(data.test));
  EXPECT_NE(frame(data.train), frame(data.validation));
  EXPECT_NE(frame(data.validation), frame(data.test));
}

TEST(AmcTask, RefusesUnknownPresetsAndScales) {
  EXPECT_THROW(static_cast<void>(make_task({.preset = "huge"})), Error);
  EXPECT_THROW(static_cast<void>(make_task({.scale = 0})), Error);
}

// The whole road with the shipped recipes, on a tenth of the quick preset's frames: what the networks say in training
// is what their files say, and the files are as small as the table promises.
TEST(AmcEndToEnd, FilesAnswerAsTheirNetworksDo) {
  const test::TemporaryFolder folder;
  const Comparison comparison =
      compare_strategies(make_task({.scale = 0.1}), {.seed = 1, .threads = 2, .folder = folder.path()});
  ASSERT_EQ(comparison.rows.size(), 4U);
  for (const PointResult& row : comparison.rows) {
    EXPECT_GE(row.measured.agreement, 0.998) << row.strategy;
    EXPECT_GT(row.measured.all.accuracy(), 0.25) << row.strategy;  // chance: 1/11
  }
  EXPECT_GE(comparison.rows[3].measured.ratio, 13) << comparison.rows[3].strategy;
}

}  // namespace
}  // namespace podaq::amc
