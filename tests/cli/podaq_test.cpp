// The program `podaq` as a user sees it: what it prints and how it exits.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "consumer/sample_network.h"
#include "podaq/core/version.h"
#include "podaq/format/file.h"
#include "support/run_program.h"
#include "support/temporary_folder.h"

namespace podaq {
namespace {

namespace fs = std::filesystem;

void expect_has(const std::string& text, std::string_view part) {
  EXPECT_NE(text.find(part), std::string::npos) << "no '" << part << "' in\n" << text;
}

using test::Outcome;
using test::run;

class PodaqProgram : public testing::Test {
 protected:
  void SetUp() override {
    const char* programs = std::getenv("PODAQ_BIN");
    ASSERT_NE(programs, nullptr) << "CTest sets PODAQ_BIN to the folder of the programs";
    program_ = (fs::path(programs) / "podaq").string();
    file_ = (folder_ / "sample.podaq").string();
    save(sample_network(), file_);
  }

  [[nodiscard]] Outcome podaq(const std::string& arguments) const { return run(program_ + " " + arguments); }

  // Inverts one byte of the file.
  void damage(std::size_t offset) const {
    std::fstream stream(file_, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(offset));
    const char byte = static_cast<char>(~stream.get());
    stream.seekp(static_cast<std::streamoff>(offset));
    stream.put(byte);
  }

  std::string program_;
  test::TemporaryFolder temporary_;
  const fs::path& folder_ = temporary_.path();
  std::string file_;
};

TEST_F(PodaqProgram, InspectShowsLayersSectionsAndChecksums) {
  const Outcome outcome = podaq("inspect " + file_);
  EXPECT_EQ(outcome.exit_code, 0);
  for (const char* part : {"layer", "linear", "2x2", "f32", "graph", "floats", "sha256", "input x", "output y"})
    expect_has(outcome.text, part);
  EXPECT_EQ(outcome.text.find("WRONG"), std::string::npos) << outcome.text;
}

TEST_F(PodaqProgram, InspectNamesTheDamagedSection) {
  const FileReport report = [this] {
    std::ifstream stream(file_, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
    return inspect(std::as_bytes(std::span(bytes)));
  }();
  damage(report.sections.back().offset);
  const Outcome outcome = podaq("inspect " + file_);
  EXPECT_EQ(outcome.exit_code, 1);
  const std::size_t row = outcome.text.find(report.sections.back().name);
  ASSERT_NE(row, std::string::npos) << outcome.text;
  expect_has(outcome.text.substr(row, outcome.text.find('\n', row) - row), "WRONG");
}

TEST_F(PodaqProgram, BenchPrintsALatencyAndExplainsIt) {
  const Outcome outcome = podaq("bench " + file_ + " --batch 3 --seconds 0.05 --explain");
  EXPECT_EQ(outcome.exit_code, 0);
  for (const char* part : {"median", "us", "samples/s", "batch 3", "layer", "kernel", "share", "GMAC/s", "why", "fits"})
    expect_has(outcome.text, part);
}

TEST_F(PodaqProgram, TuneStoresWhatItMeasured) {
  const fs::path tuning = folder_ / "new" / "cpu.tuning";
  const Outcome outcome = podaq("tune --seconds 0.1 --output " + tuning.string());
  if (outcome.exit_code != 0) {  // no AVX-512 here
    expect_has(outcome.text, "nothing to tune");
    EXPECT_FALSE(fs::exists(tuning));
    return;
  }
  for (const char* part : {"measuring", "typical error", "avx512_sparse_conv", "shipped", "sparse_quad", "stored in"})
    expect_has(outcome.text, part);
  std::ifstream stream(tuning);
  std::string word;
  stream >> word;
  EXPECT_EQ(word, "podaq-tuning");
  const Outcome bench = run("PODAQ_TUNING=" + tuning.string() + " " + program_ + " bench " + file_ + " --seconds 0.05");
  EXPECT_EQ(bench.exit_code, 0) << bench.text;
}

TEST_F(PodaqProgram, TuneThatIsInterruptedLeavesTheFile) {
  const fs::path tuning = folder_ / "cpu.tuning";
  std::ofstream(tuning) << "as it was";
  const Outcome outcome =
      run("timeout --preserve-status -s INT 1 " + program_ + " tune --seconds 3000 --output " + tuning.string());
  EXPECT_TRUE(outcome.exit_code == 130 || outcome.text.find("nothing to tune") != std::string::npos) << outcome.text;
  std::ifstream stream(tuning);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  EXPECT_EQ(text, "as it was");
}

TEST_F(PodaqProgram, TuneNeedsAPlaceForItsResult) {
  const Outcome off = podaq("tune --seconds 0.1");  // CTest sets PODAQ_TUNING to off
  EXPECT_EQ(off.exit_code, 1);
  expect_has(off.text, "--output");
  const Outcome folder = podaq("tune --seconds 0.1 --output " + folder_.string());
  EXPECT_EQ(folder.exit_code, 1);
}

TEST_F(PodaqProgram, AFileThatIsNoneIsRefusedByName) {
  std::ofstream(folder_ / "text.podaq") << "not a network";
  for (const std::string name : {"absent.podaq", "text.podaq"})
    for (const std::string verb : {"inspect ", "bench "}) {
      const Outcome outcome = podaq(verb + (folder_ / name).string());
      EXPECT_EQ(outcome.exit_code, 1) << verb << name << ": " << outcome.text;
      EXPECT_FALSE(outcome.text.empty());
    }
}

TEST_F(PodaqProgram, AWrongCommandLineExitsWith2) {
  for (const char* arguments : {"", "frobnicate", "inspect", "bench FILE --batch 0", "bench FILE --seconds nan",
                                "inspect FILE --unknown", "tune --seconds nan"})
    EXPECT_EQ(podaq(arguments).exit_code, 2) << arguments;
  EXPECT_EQ(podaq("--help").exit_code, 0);
}

TEST_F(PodaqProgram, LostOutputIsAnError) {
  EXPECT_EQ(podaq("inspect " + file_ + " >/dev/full").exit_code, 1);  // standard error is lost too
}

TEST_F(PodaqProgram, TellsItsVersion) {
  const Outcome outcome = podaq("--version");
  EXPECT_EQ(outcome.exit_code, 0);
  expect_has(outcome.text, std::string(version));
}

TEST_F(PodaqProgram, TrainingVerbsNameTheProgramThatIsMissing) {
  const fs::path alone = folder_ / "podaq";
  fs::copy_file(program_, alone);
  const Outcome outcome = run(alone.string() + " compress amc-quick");
  EXPECT_EQ(outcome.exit_code, 1);
  expect_has(outcome.text, "podaq-train");
}

TEST_F(PodaqProgram, TrainingVerbsRunTheProgramBesideIt) {
  const fs::path alone = folder_ / "podaq";
  fs::copy_file(program_, alone);
  const fs::path train = folder_ / "podaq-train";
  std::ofstream(train) << "#!/bin/sh\necho \"$@\"\nexit 7\n";
  fs::permissions(train, fs::perms::owner_all);
  const Outcome outcome = run(alone.string() + " compress amc-quick --recipe 'a b.toml'");
  EXPECT_EQ(outcome.exit_code, 7);
  EXPECT_EQ(outcome.text, "compress amc-quick --recipe a b.toml\n");
}

}  // namespace
}  // namespace podaq
