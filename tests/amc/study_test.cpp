// `amc study` from its file to its report, at a size for tests.

#include <gtest/gtest.h>

#include <filesystem>

#include "amc/amc_task.h"
#include "podaq/study/study_report.h"
#include "support/temporary_folder.h"

namespace podaq::amc {
namespace {

Study shipped_study(const std::string& name, const std::string& scale) {
  return load_study(std::filesystem::path(PODAQ_AMC_FOLDER) / "studies" / name, [&](TaskWords words) {
    words["scale"].text = scale;
    return make_task(task_options(words));
  });
}

TEST(AmcStudy, TheShippedQuickStudyHasEveryStrategy) {
  const Study study = shipped_study("quick.toml", "0.01");
  EXPECT_GE(plan_study(study).size(), 12U);
}

TEST(AmcStudy, GoesFromItsFileToItsReport) {
  const test::TemporaryFolder folder;
  Study study = shipped_study("quick.toml", "0.02");
  study.folder = folder.path();
  std::erase_if(study.task.strategies, [](const Strategy& strategy) {
    return strategy.name != "dense" && strategy.name != "prune_quantize-distilled" && strategy.name != "goldbarg";
  });
  study.task.training.batch_size = 220;
  const StudyResult result = run_study(study, {.threads = 2});
  EXPECT_EQ(result.points.size(), 3U);
  const std::string html = to_html(result, {.command = "amc study", .plots = false});
  for (const char* part : {"ITU score", "prune_quantize-distilled", "BPSK", "at -6 dB"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
  for (const PointResult& point : result.points) EXPECT_GT(point.measured.figures.at("ITU score"), 0);
}

TEST(AmcStudy, RefusesUnknownWordsOfItsTask) {
  EXPECT_THROW(static_cast<void>(task_options({{"colour", {.text = "red", .origin = "x:1"}}})), Error);
  EXPECT_THROW(static_cast<void>(task_options({{"network", {.text = "transformer", .origin = "x:1"}}})), Error);
}

}  // namespace
}  // namespace podaq::amc
