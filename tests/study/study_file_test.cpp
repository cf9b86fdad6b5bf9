#include "podaq/study/study_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "podaq/core/error.h"
#include "support/temporary_folder.h"

namespace podaq {
namespace {

// A task without data: files are only read here.
Task bare_task(const TaskWords& words) {
  Task task;
  task.name = "bare";
  for (const auto& [key, word] : words) {
    if (key == "preset") {
      if (word.text != "quick") throw Error(ErrorCode::invalid_argument, "there is only quick");
    } else if (key == "scale") {
      static_cast<void>(number_in(key, word));
    } else {
      refuse_key(key, word, "preset, scale");
    }
  }
  task.strategies = {
      {"dense", Recipe::parse("[epochs]\ndense = 5\n")},
      {"prune_quantize", Recipe::parse("[epochs]\nprune = 2\nquantize = 3\n[prune]\nsparsity = 0.5\n[quantize]\n")}};
  return task;
}

class LoadStudy : public testing::Test {
 protected:
  Study load(const std::string& text) const {
    std::ofstream(folder_.path() / "study.toml") << text;
    return load_study(folder_.path() / "study.toml", bare_task);
  }

  void expect_refusal(const std::string& text, const std::string& part) const {
    try {
      static_cast<void>(load(text));
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }

  static std::vector<std::string> names(const Study& study) {
    std::vector<std::string> names;
    for (const Strategy& strategy : study.task.strategies) names.push_back(strategy.name);
    return names;
  }

  test::TemporaryFolder folder_;
};

TEST_F(LoadStudy, MakesAllCombinationsOfAGrid) {
  const Study study = load(
      "seeds = [3, 4]\nconfusion = [-10, 0]\nfolder = \"somewhere\"\n[task]\npreset = \"quick\"\nscale = 0.5\n"
      "[training]\nshared_epochs = 2\nlearning_rate = 0.5\n[distillation]\nteacher = \"dense\"\nweight = 0.25\n"
      "[grid]\nstrategies = [\"dense\", \"prune_quantize\"]\nsparsities = [0.8, 0.9]\nweight_bits = [4]\n"
      "lengths = [1, 2]\ndistilled = [false, true]\n");
  EXPECT_EQ(names(study),
            (std::vector<std::string>{"dense", "dense-distilled", "dense-x2", "dense-x2-distilled",
                                      "prune_quantize-s0.8-w4", "prune_quantize-s0.8-w4-distilled",
                                      "prune_quantize-s0.8-w4-x2", "prune_quantize-s0.8-w4-x2-distilled",
                                      "prune_quantize-s0.9-w4", "prune_quantize-s0.9-w4-distilled",
                                      "prune_quantize-s0.9-w4-x2", "prune_quantize-s0.9-w4-x2-distilled"}));
  const Strategy& last = study.task.strategies.back();
  EXPECT_EQ(last.recipe.prune->sparsity, 0.9);
  EXPECT_EQ(last.recipe.quantize->weight_bits, 4);
  EXPECT_EQ(last.recipe.epochs.prune, 4);
  EXPECT_EQ(last.recipe.epochs.quantize, 6);
  EXPECT_EQ(last.teaching->teacher, "dense");
  EXPECT_EQ(last.teaching->options.weight, 0.25);
  EXPECT_EQ(study.seeds, (std::vector<std::uint64_t>{3, 4}));
  EXPECT_EQ(study.confusion_groups, (std::vector<std::int32_t>{-10, 0}));
  EXPECT_EQ(study.folder, "somewhere");
  EXPECT_EQ(study.task.shared_epochs, 2);
  EXPECT_EQ(study.task.training.learning_rate, 0.5);
}

TEST_F(LoadStudy, AddsDenseRowsOfAtLeastAsManyEpochs) {
  std::ofstream(folder_.path() / "tiny.toml") << "[epochs]\nprune = 3\nrecover = 4\n[prune]\nsparsity = 0.5\n";
  Study study = load("[[rows]]\nrecipe = \"tiny.toml\"\nlength = 2\n[grid]\nstrategies = [\"dense\"]\n");
  EXPECT_EQ(names(study), (std::vector<std::string>{"dense-14-epochs", "tiny", "dense"}));
  EXPECT_EQ(study.task.strategies[0].recipe.epochs.dense, 14);
  study = load("[distillation]\nteacher = \"dense\"\n[[rows]]\nrecipe = \"tiny.toml\"\ndistilled = true\n");
  EXPECT_EQ(names(study), (std::vector<std::string>{"dense", "dense-distilled", "tiny"}));
  EXPECT_TRUE(study.task.strategies[1].teaching.has_value());
  // Where there are such rows, none is added.
  study = load("[grid]\nstrategies = [\"dense\", \"prune_quantize\"]\n");
  EXPECT_EQ(names(study), (std::vector<std::string>{"dense", "prune_quantize"}));
}

TEST_F(LoadStudy, NamesTheFolderAfterTheFile) {
  EXPECT_EQ(load("[grid]\nstrategies = [\"dense\"]\n").folder, "results/study");
}

TEST_F(LoadStudy, RefusesWrongFieldsNamingFileAndLine) {
  const std::string grid = "[grid]\nstrategies = [\"dense\"]\n";
  expect_refusal("seed = [1]\n" + grid, "study.toml:1: seed is unknown; known here: seeds");
  expect_refusal("seeds = [1.5]\n" + grid, "study.toml:1: seeds must be a whole number");
  expect_refusal("seeds = [-1]\n" + grid, "study.toml:1: seeds must not hold negative");
  expect_refusal("folder = 3\n" + grid, "study.toml:1: folder must be text");
  expect_refusal("[task]\n\nscale = \"a\"\n" + grid, "study.toml:3: task.scale must be a number");
  expect_refusal("[task]\nnetwork = \"a\"\n" + grid, "study.toml:2: task.network is unknown");
  expect_refusal("[task]\npreset = true\n" + grid, "study.toml:2: task.preset must be text or a number");
  expect_refusal("[task]\npreset = \"slow\"\n" + grid, "study.toml: [task]: there is only quick");
  expect_refusal("[training]\nshared_epochs = -1\n" + grid, "study.toml:2: training.shared_epochs is -1");
  expect_refusal("[distillation]\nteacher = \"dense\"\nweight = 2\n" + grid, "study.toml:3: distillation.weight is 2");
  expect_refusal("[distillation]\nweight = 0.5\n" + grid, "needs a teacher");
  expect_refusal("", "needs [[rows]] or a [grid]");
  expect_refusal("[[rows]]\nname = \"a\"\n", "study.toml:1: a row needs a recipe");
  expect_refusal("rows = 3\n", "study.toml:1: rows must be a list of tables");
  expect_refusal("[grid]\nstrategies = [\"sparse\"]\n", "study.toml:2: grid.strategies.\"sparse\" is none of dense");
  expect_refusal("[grid]\nsparsities = [0.5]\n", "needs strategies");
  expect_refusal(grid + "sparsities = [1]\n", "study.toml:3: grid.sparsities holds 1, must lie in [0, 1)");
  expect_refusal(grid + "weight_bits = [9]\n", "study.toml:3: grid.weight_bits holds 9, must lie in [2, 8]");
  expect_refusal(grid + "lengths = [0]\n", "study.toml:3: grid.lengths holds 0, must lie in (0, 1000]");
  expect_refusal(grid + "distilled = [1]\n", "study.toml:3: grid.distilled must be a list of true and false");
  expect_refusal(grid + "distilled = [true]\n", "distilled rows need a [distillation]");
  expect_refusal("[grid\n", "study.toml:1:");
}

}  // namespace
}  // namespace podaq
