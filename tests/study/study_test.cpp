#include "podaq/study/study.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "podaq/core/error.h"
#include "podaq/core/file.h"
#include "podaq/format/file.h"
#include "study/folder_lock.h"
#include "study/small_task.h"
#include "support/temporary_folder.h"

namespace podaq {
namespace {

namespace fs = std::filesystem;

std::string error_of(const Study& study) {
  try {
    static_cast<void>(run_study(study, {.threads = 1}));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

class RunStudy : public testing::Test {
 protected:
  // Two epochs of each of two rows, on two seeds.
  [[nodiscard]] Study small_study() const {
    Study study{.task = test::small_task(), .seeds = {1, 2}, .folder = folder_.path() / "study"};
    study.task.identity = "waveforms";
    study.task.load_data = test::waveform_sets(192, 60, 61);
    study.task.shared_epochs = 1;
    study.task.strategies = {{"pruned", Recipe::parse("[epochs]\nprune = 1\nrecover = 1\n[prune]\nsparsity = 0.5\n")},
                             {"dense", Recipe::parse("[epochs]\ndense = 2\n")}};
    return study;
  }

  static void forbid_work(Study& study) {
    study.task.load_data = [](std::uint64_t, int) -> TaskData { throw std::logic_error("data were loaded"); };
  }

  static std::vector<std::byte> file_of(const PointResult& point) { return read_file(point.file, 1 << 20); }

  test::TemporaryFolder folder_;
};

TEST_F(RunStudy, TellsWhatTheFilesDo) {
  const Study study = small_study();
  const StudyResult result = run_study(study, {.threads = 2});
  ASSERT_EQ(result.points.size(), 4U);
  EXPECT_EQ(result.strategies, (std::vector<std::string>{"pruned", "dense"}));
  for (std::size_t i = 0; i < 4; ++i) {
    const PointResult& point = result.points[i];
    EXPECT_EQ(point.strategy, result.strategies[i / 2]);
    EXPECT_EQ(point.seed, study.seeds[i % 2]);
    const TaskData data = study.task.load_data(point.seed, 1);
    const Evaluation evaluation = evaluate(Model::load(point.file), data.test);
    EXPECT_EQ(point.measured.all.right, evaluation.all.right);
    EXPECT_EQ(point.measured.by_group.at(-10).right, evaluation.by_group.at(-10).right);
    std::int64_t on_diagonal = 0;
    std::int64_t answers = 0;
    for (const auto& [group, counts] : point.measured.confusion)
      for (std::size_t k = 0; k < counts.size(); ++k) answers += counts[k], on_diagonal += k % 4 == 0 ? counts[k] : 0;
    EXPECT_EQ(on_diagonal, evaluation.all.right);
    EXPECT_EQ(answers, evaluation.all.total);
    std::uint64_t bytes = 0;
    for (const auto& [section, size] : point.measured.section_bytes) bytes += size;
    EXPECT_EQ(bytes, fs::file_size(point.file));
    EXPECT_EQ(point.validation.size(), 2U);
    EXPECT_EQ(point.steps, 2 * (192 / 32));
    EXPECT_GT(point.podaq.median_us, 0);
  }
}

TEST_F(RunStudy, ReadsWhatItsFolderHolds) {
  Study study = small_study();
  const StudyResult first = run_study(study, {.threads = 2});
  forbid_work(study);
  for (const PlannedPoint& point : plan_study(study)) EXPECT_TRUE(point.done) << point.strategy;
  const StudyResult second = run_study(study, {.threads = 1});
  for (std::size_t i = 0; i < first.points.size(); ++i) {
    EXPECT_EQ(second.points[i].measured.all.right, first.points[i].measured.all.right);
    EXPECT_EQ(second.points[i].measured.confusion, first.points[i].measured.confusion);
    EXPECT_EQ(second.points[i].podaq.median_us, first.points[i].podaq.median_us);
    EXPECT_EQ(second.points[i].validation, first.points[i].validation);
  }
  // A task may show other figures of the same files.
  study.task.figures = {{.name = "nodes", .of_file = [](const Graph& graph) { return double(graph.nodes.size()); }}};
  EXPECT_GT(run_study(study, {.threads = 1}).points[0].measured.figures.at("nodes"), 2);
}

TEST_F(RunStudy, APointDoesNotDependOnWhatElseIsTrainedOrOnThreads) {
  const Study study = small_study();
  const StudyResult together = run_study(study, {.threads = 2});
  Study alone = study;
  alone.folder = folder_.path() / "alone";
  alone.seeds = {2};
  std::erase_if(alone.task.strategies, [](const Strategy& strategy) { return strategy.name != "pruned"; });
  const StudyResult one = run_study(alone, {.threads = 1});
  EXPECT_EQ(file_of(one.points.at(0)), file_of(together.points.at(1)));
}

TEST_F(RunStudy, TrainsAnewWhatDependsOnAChange) {
  Study study = small_study();
  static_cast<void>(run_study(study, {.threads = 2}));
  const auto missing = [](const Study& changed) {
    std::string names;
    for (const PlannedPoint& point : plan_study(changed))
      if (!point.done) names += point.strategy + std::to_string(point.seed) + " ";
    return names;
  };
  EXPECT_EQ(missing(study), "");
  Study changed = study;
  changed.task.strategies[0].recipe.prune->sparsity = 0.6;
  EXPECT_EQ(missing(changed), "pruned1 pruned2 ");
  changed = study;
  changed.task.training.learning_rate *= 2;
  EXPECT_EQ(missing(changed), "shared1 shared2 pruned1 dense1 pruned2 dense2 ");
  changed = study;
  changed.task.identity = "other waveforms";
  EXPECT_EQ(missing(changed), "shared1 shared2 pruned1 dense1 pruned2 dense2 ");
  changed = study;
  changed.seeds = {2, 3};
  EXPECT_EQ(missing(changed), "shared3 pruned3 dense3 ");
}

TEST_F(RunStudy, TrainsAnewWhereAFileIsAnotherOneNow) {
  Study study = small_study();
  const StudyResult first = run_study(study, {.threads = 2});
  const std::vector<std::byte> bytes = file_of(first.points[0]);
  fs::resize_file(first.points[0].file, 10);
  const StudyResult second = run_study(study, {.threads = 2});
  EXPECT_EQ(file_of(second.points[0]), bytes);
}

TEST_F(RunStudy, RefusesAResultThatItCannotRead) {
  Study study = small_study();
  PointResult point = run_study(study, {.threads = 2}).points[0];
  const fs::path json = point.file.replace_extension(".json");
  std::ofstream(json) << "{\"strategy\": 3}";
  forbid_work(study);
  EXPECT_NE(error_of(study).find(json.string()), std::string::npos) << error_of(study);
}

TEST_F(RunStudy, LeavesNothingOfFinishedTrainingsButNetworksFilesAndResults) {
  const Study study = small_study();
  static_cast<void>(run_study(study, {.threads = 2}));
  std::map<std::string, int> kinds;
  for (const auto& entry : fs::directory_iterator(study.folder / "points")) ++kinds[entry.path().extension().string()];
  EXPECT_EQ(kinds, (std::map<std::string, int>{{".json", 4}, {".network", 2}, {".podaq", 4}}));
}

TEST_F(RunStudy, ATeacherIsTrainedFirstAndMakesADifference) {
  Study study = small_study();
  study.seeds = {1};
  study.task.strategies.insert(study.task.strategies.begin(),
                               {.name = "listener",
                                .recipe = Recipe::parse("[epochs]\ndense = 2\n"),
                                .teaching = Teaching{.teacher = "dense", .options = {.weight = 1}}});
  const StudyResult result = run_study(study, {.threads = 2});
  EXPECT_EQ(result.points[0].strategy, "listener");
  EXPECT_EQ(result.points[0].teacher, "dense");
  EXPECT_NE(file_of(result.points[0]), file_of(result.points[2]));
  // A file may teach, too: the same one, so the same network comes out.
  Study from_file = study;
  from_file.folder = folder_.path() / "from_file";
  from_file.task.strategies = {study.task.strategies[0]};
  from_file.task.strategies[0].teaching->teacher = result.points[2].file.string();
  EXPECT_EQ(file_of(run_study(from_file, {.threads = 1}).points.at(0)), file_of(result.points[0]));
}

TEST_F(RunStudy, CalibratesARecipeThatQuantizesWithoutAStageForIt) {
  Study study = small_study();
  study.seeds = {1};
  study.task.load_data = test::small_task().load_data;
  study.task.training.warm_up_epochs = 0.5;
  study.task.strategies = {
      {"trained", Recipe::parse("[epochs]\ndense = 2\n[quantize]\n[quantize.post_training]\nbias_correction = true\n")},
      {"calibrated", Recipe::parse("[quantize]\n")}};
  const StudyResult result = run_study(study, {.threads = 1});
  for (const PointResult& point : result.points) {
    EXPECT_GT(point.measured.agreement, 0.97) << point.strategy;
    EXPECT_GT(point.measured.ratio, 1.3) << point.strategy;
    EXPECT_GT(point.validation_accuracy, 0.4) << point.strategy;
  }
  EXPECT_EQ(result.points[1].steps, 0);
}

TEST_F(RunStudy, AFailureKeepsNoOtherPointFromBeingTrained) {
  Study study = small_study();
  study.task.figures = {{.name = "figure", .of_file = [](const Graph& graph) -> double {
                           if (graph.metadata.at("strategy") == "pruned") throw std::runtime_error("no figure");
                           return 7;
                         }}};
  EXPECT_THROW(static_cast<void>(run_study(study, {.threads = 1})), std::runtime_error);
  for (const PlannedPoint& point : plan_study(study)) EXPECT_EQ(point.done, point.strategy != "pruned");
}

TEST_F(RunStudy, RefusesBeforeAnyWorkWhatCannotBeTrained) {
  Study study = small_study();
  forbid_work(study);
  const auto refuses = [&](const std::string& part, const auto& change) {
    Study changed = study;
    change(changed);
    const std::string error = error_of(changed);
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  refuses("no strategy", [](Study& s) { s.task.strategies.clear(); });
  refuses("no seed", [](Study& s) { s.seeds.clear(); });
  refuses("twice", [](Study& s) { s.seeds = {1, 1}; });
  refuses("cannot name a file", [](Study& s) { s.task.strategies[0].name = "a/b"; });
  refuses("cannot name a file", [](Study& s) { s.task.strategies[0].name = ".."; });
  refuses("two strategies", [](Study& s) { s.task.strategies[0].name = "dense"; });
  refuses("neither a strategy", [](Study& s) { s.task.strategies[0].teaching = Teaching{.teacher = "nobody"}; });
  refuses("teach itself", [](Study& s) { s.task.strategies[0].teaching = Teaching{.teacher = "pruned"}; });
  refuses("matches no layer", [](Study& s) { s.task.strategies[0].recipe.prune->layers = {"nowhere"}; });
  refuses("warm_up_epochs", [](Study& s) { s.task.training.warm_up_epochs = 3; });
  refuses("study.toml:4", [](Study& s) {
    s.task.strategies[0].name = "a b";
    s.origins["rows.a b"] = "study.toml:4";
  });
}

TEST_F(RunStudy, RefusesAFolderThatAnotherProcessWorksIn) {
  const Study study = small_study();
  fs::create_directories(study.folder);
  const study_detail::FolderLock lock(study.folder);
  EXPECT_NE(error_of(study).find("another process"), std::string::npos);
}

}  // namespace
}  // namespace podaq
