// The program `amc-data` as a user sees it.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "podaq/data/radioml_file.h"
#include "podaq/data/split_file.h"
#include "support/run_program.h"
#include "support/temporary_folder.h"

namespace podaq::amc {
namespace {

using test::Outcome;

class AmcData : public testing::Test {
 protected:
  void SetUp() override {
    const char* programs = std::getenv("PODAQ_BIN");
    ASSERT_NE(programs, nullptr) << "CTest sets PODAQ_BIN to the folder of the programs";
    program_ = std::filesystem::path(programs) / "amc-data";
  }

  [[nodiscard]] Outcome run(const std::string& arguments) const {
    return test::run(program_.string() + " " + arguments);
  }

  [[nodiscard]] std::uintmax_t bytes_in_folder() const {
    std::uintmax_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) bytes += entry.file_size();
    return bytes;
  }

  /// Starts a synthesis that takes minutes, sends it a signal when it has written half a MiB, and waits for its end.
  [[nodiscard]] int interrupted_with(int signal) const {
    const std::string file = file_.string();
    const pid_t child = fork();
    if (child == 0) {
      execl(program_.c_str(), "amc-data", "synthesize", "--preset", "full", "--frames-per-cell", "2000", "--out",
            file.c_str(), nullptr);
      _exit(127);
    }
    while (bytes_in_folder() < (1U << 19)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    kill(child, signal);
    int status = 0;
    waitpid(child, &status, 0);
    return status;
  }

  const test::TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_.path() / "set.hdf5";
  std::filesystem::path program_;
};

TEST_F(AmcData, SynthesizesShowsAndSplits) {
  ASSERT_EQ(run("synthesize --frames-per-cell 5 --seed 7 --out " + file_.string()).exit_code, 0);
  const Outcome shown = run("inspect " + file_.string());
  EXPECT_EQ(shown.exit_code, 0);
  for (const char* words : {"1100 frames of 128 samples", "11 classes: 8PSK, AM-DSB", "20 SNRs in dB: -20", "5 to 5"})
    EXPECT_NE(shown.text.find(words), std::string::npos) << words << " is not in " << shown.text;

  const auto split = folder_.path() / "split.json";
  ASSERT_EQ(run("split " + file_.string() + " --out " + split.string()).exit_code, 0);
  const RadioMlReader reader(file_);
  const auto parts = read_split(split, {.labels = reader.labels(), .groups = reader.snrs_db()}).parts;
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0].size(), 660U);
  EXPECT_EQ(parts[1].size(), 220U);
  EXPECT_EQ(parts[2].size(), 220U);
}

TEST_F(AmcData, EachImpairmentCanBeLeftOut) {
  const auto samples = [&](const std::string& arguments) {
    EXPECT_EQ(
        run("synthesize --frames-per-cell 1 --impairments " PODAQ_AMC_FOLDER "/impairments/cheap_receiver.toml --out " +
            file_.string() + " " + arguments)
            .exit_code,
        0);
    RadioMlReader reader(file_);
    std::vector<std::int64_t> rows;
    for (std::int64_t row = 0; row < reader.size(); ++row) rows.push_back(row);
    return load_frames(reader, rows).samples;
  };
  const auto all = samples("");
  EXPECT_EQ(samples(""), all);
  for (const char* spared : {"multipath", "fading", "carrier", "clock", "iq"})
    EXPECT_NE(samples(std::string("--without ") + spared), all) << spared;
  EXPECT_EQ(run("synthesize --frames-per-cell 1 --without rain --out " + file_.string()).exit_code, 2);
}

TEST_F(AmcData, Case61SigkillLeavesNoReadableHalfFile) {
  const int status = interrupted_with(SIGKILL);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_FALSE(std::filesystem::exists(file_));
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
    EXPECT_THROW(RadioMlReader(entry.path()), std::exception) << entry.path();
}

TEST_F(AmcData, CtrlCLeavesNothing) {
  const int status = interrupted_with(SIGINT);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(AmcData, RefusalsNameFileAndFault) {
  const Outcome missing = run("inspect " + file_.string());
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_NE(missing.text.find(file_.string()), std::string::npos) << missing.text;
  ASSERT_EQ(run("synthesize --frames-per-cell 1 --out " + file_.string()).exit_code, 0);
  const Outcome split = run("split " + file_.string() + " --fractions 0.9 0.9 0.1 --out " + file_.string() + ".json");
  EXPECT_EQ(split.exit_code, 1);
  EXPECT_NE(split.text.find("SplitOptions.fractions"), std::string::npos) << split.text;
  EXPECT_EQ(run("synthesize --out " + file_.string()).exit_code, 2);
}

}  // namespace
}  // namespace podaq::amc
