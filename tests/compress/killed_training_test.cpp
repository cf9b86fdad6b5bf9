// Training that is killed at any moment, in the middle of a save too, and started again gives the file of the unbroken
// run. The training is a process of its own: this program, running a test that only it is told to run.

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "compress/network_builder.h"
#include "compress/training_loop.h"
#include "podaq/compress/compressor.h"
#include "podaq/core/file.h"
#include "podaq/format/file.h"
#include "podaq/training/random_sampler.h"
#include "support/temporary_folder.h"

extern char** environ;

namespace podaq {
namespace {

namespace fs = std::filesystem;

constexpr const char* folder_variable = "PODAQ_TEST_KILLED_TRAINING_FOLDER";
constexpr const char* optimizer_variable = "PODAQ_TEST_KILLED_TRAINING_OPTIMIZER";
constexpr std::int64_t sample_count = 96;
constexpr std::int64_t batch_size = 16;
constexpr std::uint64_t largest_file = 1 << 26;

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const std::string& kind, const GraphModule& model) {
  const auto parameters = model.parameters();
  if (kind == "Adam") return std::make_unique<torch::optim::Adam>(parameters, torch::optim::AdamOptions(0.01));
  if (kind == "AdamW") return std::make_unique<torch::optim::AdamW>(parameters, torch::optim::AdamWOptions(0.01));
  if (kind == "RMSprop")
    return std::make_unique<torch::optim::RMSprop>(parameters, torch::optim::RMSpropOptions(0.01).momentum(0.5));
  return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(0.05).momentum(0.9));
}

// The user's program: takes up the checkpoint if there is one, saves after each step, writes the file at the end.
void train(const fs::path& folder, const std::string& optimizer_kind) {
  torch::manual_seed(3);
  const test::Batch data = test::make_batch(sample_count, 2, 16, 4);
  const auto model = test::small_classifier(2, 16, 4, 5);
  const auto optimizer = make_optimizer(optimizer_kind, *model);
  RandomSampler sampler(sample_count, 7);
  Compressor compressor(model, {.epochs = {.dense = 1, .prune = 2, .quantize = 2, .freeze_observers = 1},
                                .prune = PruneRecipe{.sparsity = 0.8},
                                .quantize = QuantizeRecipe{}});
  compressor.attach(*optimizer, sampler, {.steps_per_epoch = sample_count / batch_size});
  const fs::path checkpoint = folder / "checkpoint";
  if (fs::exists(checkpoint)) compressor.load_checkpoint(checkpoint);
  for (; compressor.epoch() < compressor.epochs(); compressor.end_epoch()) {
    model->train();
    sampler.reset();
    while (const auto indices = sampler.next(batch_size)) {
      const std::vector<std::int64_t> rows(indices->begin(), indices->end());
      const torch::Tensor index = torch::tensor(rows, torch::kLong);
      test::train_step(*model, *optimizer,
                       {data.samples.index_select(0, index) + 0.1 * torch::randn({batch_size, 2, 16}),
                        data.labels.index_select(0, index)});
      compressor.step();
      compressor.save_checkpoint(checkpoint);
    }
  }
  save(compressor.convert(), folder / "net.podaq");
}

// The process that the tests below start and kill.
TEST(DISABLED_KilledTraining, Process) {
  const char* folder = std::getenv(folder_variable);
  ASSERT_NE(folder, nullptr) << "only for the other tests of this file";
  train(folder, std::getenv(optimizer_variable));
}

pid_t start(const fs::path& folder, const std::string& optimizer) {
  setenv(folder_variable, folder.c_str(), 1);
  setenv(optimizer_variable, optimizer.c_str(), 1);
  std::string program = "/proc/self/exe";
  std::vector<std::string> arguments = {program, "--gtest_also_run_disabled_tests",
                                        "--gtest_filter=DISABLED_KilledTraining.Process", "--gtest_brief=1"};
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  pid_t process = 0;
  if (posix_spawn(&process, program.c_str(), nullptr, nullptr, pointers.data(), environ) != 0)
    throw std::runtime_error("cannot start the training process");
  return process;
}

int wait_for(pid_t process) {
  int status = 0;
  waitpid(process, &status, 0);
  return status;
}

std::vector<std::byte> unbroken_file(const std::string& optimizer) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(wait_for(start(folder.path(), optimizer)), 0);
  return read_file(folder.path() / "net.podaq", largest_file);
}

class KilledTraining : public testing::TestWithParam<std::string> {};

TEST_P(KilledTraining, GivesTheFileOfTheUnbrokenRun) {
  const std::vector<std::byte> expected = unbroken_file(GetParam());
  const test::TemporaryFolder folder;
  int kills = 0;
  for (bool is_done = false; !is_done;) {
    const pid_t process = start(folder.path(), GetParam());
    // Each life gets a little further than its first save, at moments that differ from life to life.
    const auto has_saved = [&, last = fs::exists(folder.path() / "checkpoint")
                                          ? fs::last_write_time(folder.path() / "checkpoint")
                                          : fs::file_time_type::min()] {
      std::error_code none;
      return fs::exists(folder.path() / "checkpoint", none) &&
             fs::last_write_time(folder.path() / "checkpoint", none) != last;
    };
    int status = 0;
    while (!has_saved() && waitpid(process, &status, WNOHANG) == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (kills < 6) {
      std::this_thread::sleep_for(std::chrono::milliseconds(3 * kills));
      kill(process, SIGKILL);
      ++kills;
      waitpid(process, &status, 0);
    } else {
      waitpid(process, &status, 0);
    }
    is_done = fs::exists(folder.path() / "net.podaq");
  }
  EXPECT_GT(kills, 2) << "the training ended before it could be killed";
  EXPECT_EQ(read_file(folder.path() / "net.podaq", largest_file), expected);
}

// The file's size limit ends the process inside the write of a save, at the same byte every time.
TEST_P(KilledTraining, SurvivesAKillInTheMiddleOfASave) {
  const std::vector<std::byte> expected = unbroken_file(GetParam());
  const test::TemporaryFolder folder;
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  std::uintmax_t size = 4096;
  int deaths = 0;
  for (int life = 0; life < 3; ++life) {
    rlimit limit = before;
    limit.rlim_cur = size / 2;
    setrlimit(RLIMIT_FSIZE, &limit);
    const pid_t process = start(folder.path(), GetParam());
    setrlimit(RLIMIT_FSIZE, &before);
    const int status = wait_for(process);
    deaths += WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ ? 1 : 0;
    if (!fs::exists(folder.path() / "checkpoint")) {  // died in its first save: let one through, then come again
      const pid_t next = start(folder.path(), GetParam());
      while (!fs::exists(folder.path() / "checkpoint")) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      kill(next, SIGKILL);
      wait_for(next);
      size = fs::file_size(folder.path() / "checkpoint");
    }
  }
  EXPECT_EQ(deaths, 3);
  EXPECT_EQ(wait_for(start(folder.path(), GetParam())), 0);
  EXPECT_EQ(read_file(folder.path() / "net.podaq", largest_file), expected);
}

INSTANTIATE_TEST_SUITE_P(All, KilledTraining, testing::Values("SGD", "Adam", "AdamW", "RMSprop"));

}  // namespace
}  // namespace podaq
