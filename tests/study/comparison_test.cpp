#include "podaq/study/comparison.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "podaq/core/error.h"
#include "podaq/core/file.h"
#include "podaq/format/file.h"
#include "study/small_task.h"
#include "support/temporary_folder.h"

namespace podaq {
namespace {

using test::small_task;

class CompareStrategies : public testing::Test {
 protected:
  test::TemporaryFolder folder_;
};

TEST_F(CompareStrategies, ReportsWhatTheFilesThemselvesDo) {
  const Task task = small_task();
  const Comparison comparison = compare_strategies(task, {.seed = 5, .threads = 2, .folder = folder_.path()});
  ASSERT_EQ(comparison.rows.size(), 2U);
  EXPECT_EQ(comparison.parameters, 2 * 3 * 16 + 32 + 16 * 3 * 16 + 16 + 16 * 3 + 3);
  const Dataset test = task.load_data(5, 1).test;
  for (const PointResult& row : comparison.rows) {
    EXPECT_EQ(row.measured.file_bytes, std::filesystem::file_size(row.file));
    EXPECT_EQ(row.measured.all.right, evaluate(Model::load(row.file), test).all.right);
    EXPECT_EQ(row.measured.all.total, 301);
    EXPECT_DOUBLE_EQ(row.measured.ratio,
                     4.0 * static_cast<double>(comparison.parameters) / static_cast<double>(row.measured.file_bytes));
    EXPECT_GT(row.measured.all.accuracy(), 0.6);
    EXPECT_GT(row.measured.high_groups->accuracy(), row.measured.all.accuracy());
    EXPECT_GE(row.measured.agreement, 0.98);
    EXPECT_GT(row.podaq.median_us, 0);
    EXPECT_GT(row.libtorch.median_us, 0);
  }
  EXPECT_EQ(comparison.rows[0].measured.sparsity, 0.0);
  EXPECT_NEAR(comparison.rows[1].measured.sparsity, 0.6, 0.05);
  EXPECT_GT(comparison.rows[1].measured.ratio, 2 * comparison.rows[0].measured.ratio);
}

// The file holds the average of the weights, so that is what is validated, and what the network is left with.
TEST_F(CompareStrategies, ValidatesAndWritesTheAverageWhereTheRecipeHasOne) {
  Task task = small_task();
  task.strategies = {{"average", Recipe::parse("[epochs]\ndense = 3\n[average]\ndecay = 0.95\n")}};
  const Comparison comparison = compare_strategies(task, {.seed = 5, .threads = 1, .folder = folder_.path()});
  const PointResult& row = comparison.rows.at(0);
  EXPECT_EQ(row.measured.agreement, 1);
  const Evaluation evaluation = evaluate(Model::load(row.file), task.load_data(5, 1).validation);
  EXPECT_DOUBLE_EQ(row.validation_accuracy, evaluation.all.accuracy());
}

TEST_F(CompareStrategies, TheSameSeedGivesTheSameFiles) {
  std::vector<std::vector<std::byte>> files;
  for (int run = 0; run < 2; ++run)
    for (const PointResult& row :
         compare_strategies(small_task(), {.seed = 7, .threads = 2, .folder = folder_.path()}).rows)
      files.push_back(read_file(row.file, 1 << 20));
  EXPECT_EQ(files[0], files[2]);
  EXPECT_EQ(files[1], files[3]);
}

TEST_F(CompareStrategies, RefusesStrategiesOfUnequalLength) {
  Task task = small_task();
  task.strategies[0].recipe = Recipe::parse("[epochs]\ndense = 5\n");
  try {
    static_cast<void>(compare_strategies(task, {.folder = folder_.path()}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("give all the same"), std::string::npos) << error.what();
  }
}

// A fraction of an epoch is trained as a whole one.
TEST_F(CompareStrategies, TakesRecipesOfFractionalLength) {
  Task task = small_task();
  task.strategies = {{"prune", Recipe::parse("[epochs]\nprune = 0.5\nrecover = 0.7\n[prune]\nsparsity = 0.5\n")}};
  const Comparison comparison = compare_strategies(task, {.threads = 1, .folder = folder_.path()});
  EXPECT_GE(comparison.rows[0].measured.sparsity,
            0.49);  // channels without a nonzero weight take others' weights along
}

TEST_F(CompareStrategies, WritesAStrategysFileWhereItSaysAndNoOther) {
  Task task = small_task();
  const std::filesystem::path file = folder_.path() / "mine.podaq";
  task.strategies = {{"dense", Recipe::parse("[epochs]\ndense = 1\n"), file}};
  const Comparison comparison = compare_strategies(task, {.threads = 1, .folder = folder_.path()});
  EXPECT_EQ(comparison.rows[0].file, file);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
}

TEST_F(CompareStrategies, RefusesAFileThatCannotBeWrittenBeforeAnyWork) {
  Task task = small_task();
  task.strategies = {{"dense", Recipe::parse("[epochs]\ndense = 1\n"), folder_.path()}};
  task.load_data = [](std::uint64_t, int) -> TaskData { throw std::logic_error("data were loaded"); };
  EXPECT_THROW(static_cast<void>(compare_strategies(task, {.folder = folder_.path()})), Error);
}

TEST_F(CompareStrategies, RefusesARecipeThatDoesNotFitBeforeAnyWork) {
  Task task = small_task();
  task.strategies = {
      {"prune", Recipe::parse("[epochs]\nprune = 1\n[prune]\nsparsity = 0.5\nlayers = [\"nowhere.*\"]\n")}};
  task.load_data = [](std::uint64_t, int) -> TaskData { throw std::logic_error("data were loaded"); };
  EXPECT_THROW(static_cast<void>(compare_strategies(task, {.folder = folder_.path()})), Error);
}

TEST(ComparisonReport, JsonHoldsTheAgreedFields) {
  Comparison comparison{.task = "t", .host = "h", .seed = 3, .seconds = 1.5, .test_frames = 10, .rows = {}};
  PointResult row;
  row.strategy = "dense";
  row.measured.all = {.right = 7, .total = 10};
  row.measured.high_groups = Score{.right = 4, .total = 5};
  row.measured.file_bytes = 100;
  row.measured.ratio = 4;
  comparison.rows.push_back(row);
  const auto json = nlohmann::json::parse(to_json(comparison));
  for (const char* key : {"host", "seed", "seconds", "test_frames", "rows"}) EXPECT_TRUE(json.contains(key)) << key;
  const auto& entry = json["rows"][0];
  for (const char* key : {"strategy", "accuracy", "accuracy_ci95", "accuracy_snr_ge_0", "sparsity", "file_bytes",
                          "ratio", "latency_us_podaq", "latency_us_libtorch"})
    EXPECT_TRUE(entry.contains(key)) << key;
  EXPECT_DOUBLE_EQ(entry["accuracy"].get<double>(), 0.7);
  EXPECT_DOUBLE_EQ(entry["accuracy_snr_ge_0"].get<double>(), 0.8);
  EXPECT_LT(entry["accuracy_ci95"][0].get<double>(), 0.7);
  EXPECT_GT(entry["accuracy_ci95"][1].get<double>(), 0.7);
  EXPECT_NE(format_table(comparison).find("70.00 %"), std::string::npos);
}

}  // namespace
}  // namespace podaq
