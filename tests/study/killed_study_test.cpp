// A study that is killed at any moment and run again writes the files of an unbroken run. It is a process of its own:
// this program, running a test that only it is told to run.

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "podaq/core/file.h"
#include "podaq/study/study.h"
#include "study/small_task.h"
#include "support/temporary_folder.h"

extern char** environ;

namespace podaq {
namespace {

constexpr const char* killed_study_folder = "PODAQ_TEST_KILLED_STUDY_FOLDER";

Study killed_study(const std::filesystem::path& folder) {
  Study study{.task = test::small_task(), .seeds = {1}, .folder = folder};
  study.task.identity = "waveforms";
  study.task.load_data = test::waveform_sets(320, 60, 61);
  study.task.shared_epochs = 2;
  study.task.strategies.push_back(
      {.name = "listener", .recipe = study.task.strategies[1].recipe, .teaching = Teaching{.teacher = "dense"}});
  return study;
}

// The process that the test below starts and kills.
TEST(DISABLED_KilledStudy, Process) {
  const char* folder = std::getenv(killed_study_folder);
  ASSERT_NE(folder, nullptr) << "only for the other test of this file";
  static_cast<void>(run_study(killed_study(folder), {.threads = 2}));
}

pid_t start_study(const std::filesystem::path& folder) {
  setenv(killed_study_folder, folder.c_str(), 1);
  std::string program = "/proc/self/exe";
  std::vector<std::string> arguments = {program, "--gtest_also_run_disabled_tests",
                                        "--gtest_filter=DISABLED_KilledStudy.Process", "--gtest_brief=1"};
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  pid_t process = 0;
  if (posix_spawn(&process, program.c_str(), nullptr, nullptr, pointers.data(), environ) != 0)
    throw std::runtime_error("cannot start the study's process");
  return process;
}

// Epochs in checkpoints and finished networks: what grows while a study runs.
std::int64_t epochs_kept(const std::filesystem::path& folder) {
  std::int64_t epochs = 0;
  try {
    for (const PlannedPoint& point : plan_study(killed_study(folder))) epochs += point.trained_epochs;
  } catch (const std::exception&) {  // a folder that is being removed just now
  }
  return epochs;
}

std::map<std::string, std::vector<std::byte>> files_in(const std::filesystem::path& folder) {
  std::map<std::string, std::vector<std::byte>> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "points"))
    if (entry.path().extension() == ".podaq") files[entry.path().filename()] = read_file(entry.path(), 1 << 20);
  return files;
}

TEST(KilledStudy, WritesTheFilesOfTheUnbrokenRun) {
  const test::TemporaryFolder unbroken;
  static_cast<void>(run_study(killed_study(unbroken.path()), {.threads = 2}));
  const test::TemporaryFolder folder;
  int kills = 0;
  for (int life = 0; life < 4; ++life) {
    const std::int64_t before = epochs_kept(folder.path());
    const pid_t process = start_study(folder.path());
    int status = 0;
    bool ended = false;
    while (!ended && epochs_kept(folder.path()) == before) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ended = waitpid(process, &status, WNOHANG) != 0;
    }
    if (ended) continue;
    kill(process, SIGKILL);
    ++kills;
    waitpid(process, &status, 0);
  }
  EXPECT_GT(kills, 1) << "the study ended before it could be killed";
  static_cast<void>(run_study(killed_study(folder.path()), {.threads = 2}));
  EXPECT_EQ(files_in(folder.path()), files_in(unbroken.path()));
  EXPECT_EQ(files_in(folder.path()).size(), 3U);
}

}  // namespace
}  // namespace podaq
