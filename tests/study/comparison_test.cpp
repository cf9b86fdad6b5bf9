#include "podaq/study/comparison.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "podaq/capture/capture.h"
#include "podaq/core/error.h"
#include "podaq/core/file.h"
#include "podaq/data/counter_random.h"
#include "podaq/format/file.h"
#include "support/temporary_folder.h"

namespace podaq {
namespace {

class SmallNet : public torch::nn::Module {
 public:
  SmallNet() {
    features_->push_back(torch::nn::Conv1d(torch::nn::Conv1dOptions(2, 16, 3).padding(1).bias(false)));
    features_->push_back(torch::nn::BatchNorm1d(16));
    features_->push_back(torch::nn::ReLU());
    features_->push_back(torch::nn::MaxPool1d(2));
    features_->push_back(torch::nn::Conv1d(torch::nn::Conv1dOptions(16, 16, 3).padding(1)));
    features_->push_back(torch::nn::ReLU());
    features_->push_back(torch::nn::Dropout(0.1));
    register_module("features", features_);
    head_ = register_module("head", torch::nn::Linear(16, 3));
  }
  torch::Tensor forward(const torch::Tensor& x) { return head_(features_->forward(x).mean(2)); }

 private:
  torch::nn::Sequential features_;
  torch::nn::Linear head_{nullptr};
};

// Three waveforms in noise; groups -10 and 10 stand for a noisy and a clean channel.
Dataset waveforms(std::int64_t size, std::uint64_t seed) {
  constexpr std::int64_t length = 16;
  Dataset dataset{
      .sample_shape = {2, length}, .samples = {}, .labels = {}, .groups = {}, .class_names = {"a", "b", "c"}};
  for (std::int64_t i = 0; i < size; ++i) {
    const auto label = static_cast<std::int32_t>(i % 3);
    const std::int32_t group = i % 2 == 0 ? -10 : 10;
    std::vector<float> noise(2 * length);
    CounterRandom random({.seed = seed, .words = {static_cast<std::uint32_t>(i), 0, 0}});
    random.fill_gaussian(noise);
    for (std::int64_t j = 0; j < 2 * length; ++j) {
      const float wave = std::sin(0.4F * static_cast<float>((label + 1) * (j % length)));
      dataset.samples.push_back(wave + (group < 0 ? 1.0F : 0.1F) * noise[static_cast<std::size_t>(j)]);
    }
    dataset.labels.push_back(label);
    dataset.groups.push_back(group);
  }
  return dataset;
}

Task small_task() {
  Task task;
  task.name = "small";
  task.load_data = [](std::uint64_t seed, int) {
    return TaskData{.train = waveforms(900, 3 * seed),
                    .validation = waveforms(150, 3 * seed + 1),
                    .test = waveforms(301, 3 * seed + 2)};
  };
  task.make_network = [](std::uint64_t seed) {
    torch::manual_seed(seed);
    const auto module = std::make_shared<SmallNet>();
    return TaskNetwork{.module = module,
                       .forward = [module](const torch::Tensor& x) { return module->forward(x); },
                       .captured = capture(module, torch::zeros({2, 2, 16}))};
  };
  task.training = {.batch_size = 32, .learning_rate = 1e-2};
  task.shared_epochs = 2;
  task.strategies = {
      {"dense", Recipe::parse("[epochs]\ndense = 4\n")},
      {"prune_quantize", Recipe::parse("[epochs]\nprune = 1\nrecover = 1\nquantize = 0.5\nfreeze_batch_norm = 0.5\n"
                                       "freeze_observers = 1\n[prune]\nsparsity = 0.6\n[quantize]\n")},
  };
  return task;
}

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
    EXPECT_DOUBLE_EQ(row.measured.ratio, 4.0 * static_cast<double>(comparison.parameters) / static_cast<double>(row.measured.file_bytes));
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
  EXPECT_GE(comparison.rows[0].measured.sparsity, 0.49);  // channels without a nonzero weight take others' weights along
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
