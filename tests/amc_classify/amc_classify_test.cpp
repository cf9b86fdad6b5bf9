// The program `amc-classify` as a user sees it: what it prints and how it exits.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <array>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "amc_classify/sample_classifier.h"
#include "podaq/core/text.h"
#include "podaq/format/file.h"
#include "support/temporary_folder.h"

namespace podaq::amc {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t length = 128;

struct Outcome {
  int exit_code = -1;
  std::vector<std::string> lines;  ///< Of standard output.
  std::string errors;              ///< Standard error.
};

std::string content_of(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Frames whose samples are all 1, i, −1, 1, …
std::vector<std::complex<float>> frames_in_turn(std::size_t frames) {
  constexpr std::array<std::complex<float>, 3> values = {{{1, 0}, {0, 1}, {-1, 0}}};
  std::vector<std::complex<float>> samples;
  for (std::size_t frame = 0; frame < frames; ++frame) samples.insert(samples.end(), length, values[frame % 3]);
  return samples;
}

template <typename Sample>
std::string bytes_of(const std::vector<Sample>& samples) {
  return {reinterpret_cast<const char*>(samples.data()), samples.size() * sizeof(Sample)};
}

class AmcClassify : public testing::Test {
 protected:
  void SetUp() override {
    const char* programs = std::getenv("PODAQ_BIN");
    ASSERT_NE(programs, nullptr) << "CTest sets PODAQ_BIN to the folder of the programs";
    program_ = (fs::path(programs) / "amc-classify").string();
    save(sample_classifier(length), folder_ / "net.podaq");
  }

  /// Runs `command` in a shell, where `$CLASSIFY` is the program with its model.
  [[nodiscard]] Outcome shell(const std::string& command) const {
    const fs::path errors = folder_ / "errors.txt";
    const std::string prefix = concat("cd '", folder_.string(), "'; CLASSIFY='", program_, " net.podaq'; ");
    Outcome outcome;
    FILE* pipe = popen(concat(prefix, "{ ", command, "; } 2>'", errors.string(), "'").c_str(), "r");
    std::string text;
    std::array<char, 4096> buffer{};
    while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe))
      text.append(buffer.data(), count);
    const int status = pclose(pipe);
    if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) outcome.lines.push_back(line);
    outcome.errors = content_of(errors);
    return outcome;
  }

  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }

  test::TemporaryFolder temporary_;
  const fs::path& folder_ = temporary_.path();
  std::string program_;
};

void expect_has(const std::string& text, std::string_view part) {
  EXPECT_NE(text.find(part), std::string::npos) << "no '" << part << "' in\n" << text;
}

TEST_F(AmcClassify, ALineForEachFrameFromAFileAndFromAPipe) {
  write("a.cf32", bytes_of(frames_in_turn(7)));
  const Outcome file = shell("$CLASSIFY a.cf32");
  EXPECT_EQ(file.exit_code, 0) << file.errors;
  ASSERT_EQ(file.lines.size(), 7U);
  const std::array names = {"in-phase", "quadrature", "negative"};
  for (std::size_t i = 0; i < 7; ++i) {
    const Json line = Json::parse(file.lines[i]);
    EXPECT_EQ(line["frame"], i);
    EXPECT_EQ(line["sample"], i * length);
    EXPECT_EQ(line["class"], names[i % 3]);
    EXPECT_GT(line["confidence"], 0.99);
    EXPECT_LE(line["confidence"], 1.0);
    EXPECT_TRUE(line["snr_db"].is_null());
  }
  expect_has(file.errors, "7 frames in");
  expect_has(file.errors, "frames/s");
  const Outcome pipe = shell("head -c 3000 a.cf32 | cat - | { cat; tail -c +3001 a.cf32; } | $CLASSIFY -");
  EXPECT_EQ(pipe.lines, file.lines) << pipe.errors;
}

TEST_F(AmcClassify, Case55LabelsOfARecordingWithAnOffset) {
  write("a.sigmf-data", bytes_of(frames_in_turn(4)));
  write("a.sigmf-meta", R"({"global":{"core:datatype":"cf32_le","core:offset":10000},"captures":[],
    "annotations":[{"core:sample_start":10128,"core:sample_count":128,"core:label":"QPSK"}]})");
  for (const char* name : {"a.sigmf-meta", "a.sigmf-data"}) {
    const Outcome outcome = shell(concat("$CLASSIFY ", name));
    ASSERT_EQ(outcome.lines.size(), 4U) << outcome.errors;
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(Json::parse(outcome.lines[i]).contains("label"), i == 1);
      EXPECT_EQ(Json::parse(outcome.lines[i])["sample"], i * length);
    }
    EXPECT_EQ(Json::parse(outcome.lines[1])["label"], "QPSK");
  }
}

TEST_F(AmcClassify, Case56OneOfSeveralChannelsIsClassified) {
  std::vector<std::complex<float>> samples;
  for (int i = 0; i < 256; ++i) samples.insert(samples.end(), {{1, 0}, {0, 1}});
  write("a.sigmf-data", bytes_of(samples));
  write("a.sigmf-meta", R"({"global":{"core:datatype":"cf32_le","core:num_channels":2},"captures":[]})");
  write("a.cf32", bytes_of(samples));
  const auto classes = [&](const std::string& arguments) {
    std::vector<std::string> found;
    for (const auto& line : shell("$CLASSIFY " + arguments).lines) found.push_back(Json::parse(line)["class"]);
    return found;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(classes("a.sigmf-meta"), (Names{"in-phase", "in-phase"}));
  EXPECT_EQ(classes("a.sigmf-meta --channel 1"), (Names{"quadrature", "quadrature"}));
  EXPECT_EQ(classes("a.cf32 --channels 2 --channel 1"), (Names{"quadrature", "quadrature"}));
  const Outcome outcome = shell("$CLASSIFY a.sigmf-meta --channel 2");
  EXPECT_EQ(outcome.exit_code, 1);
  expect_has(outcome.errors, "channels 0 to 1");
}

TEST_F(AmcClassify, Case58HeadersCanBeSkippedAndLeftOverBytesAreAnError) {
  // Without the option the header reads as six samples, and frame 1 begins six samples early.
  std::vector<std::int16_t> parts(1024 * 2, 0);
  for (std::size_t i = 0; i < 1024; ++i) parts[2 * i + (i / 128) % 2] = 1000;
  const std::string header(24, '\x7F');
  write("raw.bin", header + bytes_of(parts));
  const Outcome right = shell("$CLASSIFY raw.bin --format ci16_le --skip 24");
  EXPECT_EQ(right.exit_code, 0) << right.errors;
  ASSERT_EQ(right.lines.size(), 8U);
  for (std::size_t i = 0; i < 8; ++i)
    EXPECT_EQ(Json::parse(right.lines[i])["class"], i % 2 ? "quadrature" : "in-phase");
  const Outcome without = shell("$CLASSIFY raw.bin --format ci16_le");
  EXPECT_NE(without.lines, right.lines);
  expect_has(without.errors, "6 samples left over, too few for a frame");
  const Outcome pipe = shell("cat raw.bin | $CLASSIFY - --format ci16_le --skip 24");
  EXPECT_EQ(pipe.lines, right.lines);
  expect_has(shell("$CLASSIFY --help 1>&2").errors, "--skip BYTES");

  write("odd.bin", header + bytes_of(parts) + "x");
  const Outcome odd = shell("$CLASSIFY odd.bin --format ci16_le --skip 24");
  EXPECT_EQ(odd.exit_code, 1);
  EXPECT_EQ(odd.lines, right.lines);
  expect_has(odd.errors, "odd.bin");
  expect_has(odd.errors, "1 bytes are left over at byte 4120");
}

TEST_F(AmcClassify, Case59GapsOfNanAreMarkedAndTheRestIsUnchanged) {
  auto samples = frames_in_turn(10);
  write("whole.cf32", bytes_of(samples));
  const Outcome whole = shell("$CLASSIFY whole.cf32");
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  for (std::size_t i = 0; i < 5; ++i) samples[3 * length + 17 + i] = {nan, nan};
  write("gap.cf32", bytes_of(samples));
  const Outcome gap = shell("$CLASSIFY gap.cf32");
  EXPECT_EQ(gap.exit_code, 0) << gap.errors;
  ASSERT_EQ(gap.lines.size(), 10U);
  EXPECT_EQ(Json::parse(gap.lines[3]), (Json{{"frame", 3}, {"sample", 384}, {"invalid_sample", 384 + 17}}));
  std::vector<std::string> others = gap.lines;
  others[3] = whole.lines[3];
  EXPECT_EQ(others, whole.lines);
  expect_has(gap.errors, "1 of them invalid");
}

TEST_F(AmcClassify, ALineForEachSecondOfTheSignal) {
  auto samples = frames_in_turn(8);
  samples[length].real(std::numeric_limits<float>::infinity());
  write("a.cf32", bytes_of(samples));
  const Outcome outcome = shell("$CLASSIFY a.cf32 --every second --rate 384");  // three frames a second
  ASSERT_EQ(outcome.lines.size(), 3U) << outcome.errors;
  const Json first = Json::parse(outcome.lines[0]);
  EXPECT_EQ(first["second"], 0);
  EXPECT_EQ(first["frames"], 3);
  EXPECT_EQ(first["invalid_frames"], 1);
  EXPECT_EQ(first["invalid_sample"], length);
  EXPECT_NEAR(first["confidence"].get<double>(), 0.5, 1e-3);  // one frame each of in-phase and negative
  const Json last = Json::parse(outcome.lines[2]);
  EXPECT_EQ(last["second"], 2);
  EXPECT_EQ(last["sample"], 6 * length);
  EXPECT_EQ(last["frames"], 2);
  const Outcome without = shell("$CLASSIFY a.cf32 --every second");
  EXPECT_EQ(without.exit_code, 1);
  expect_has(without.errors, "sample rate");
}

TEST_F(AmcClassify, RefusesWhatItCannotRead) {
  write("a.xyz", "12345678");
  write("a.sigmf", "12345678");
  write("a.sigmf-meta", R"({"global":{"core:datatype":"cf32_le"},"captures":[]})");
  write("a.sigmf-data", "12345678");
  const auto refuse = [&](const std::string& arguments, int code, std::string_view part) {
    const Outcome outcome = shell("$CLASSIFY " + arguments);
    EXPECT_EQ(outcome.exit_code, code) << arguments;
    EXPECT_TRUE(outcome.lines.empty());
    expect_has(outcome.errors, part);
  };
  refuse("a.xyz", 1, "--format");
  refuse("a.xyz --format rf32_le", 1, "real samples");
  refuse("a.sigmf", 1, "archive");
  refuse("none.cf32", 1, "none.cf32");
  refuse("a.sigmf-meta --skip 4", 1, "--skip");
  refuse("a.cf32 --channels 0", 1, "channels");
  refuse("a.cf32 --every hour", 2, "--every");
  refuse("a.cf32 --skip -1", 2, "--skip");
}

TEST_F(AmcClassify, AReaderThatHasGoneEndsItQuietly) {
  const Outcome outcome = shell("yes 12345678 | { $CLASSIFY -; echo code $? >&2; } | head -n 2");
  EXPECT_EQ(outcome.lines.size(), 2U);
  expect_has(outcome.errors, "code 0");
  EXPECT_EQ(outcome.errors.find("amc-classify:"), std::string::npos) << outcome.errors;
  expect_has(outcome.errors, "frames/s");
}

TEST_F(AmcClassify, AskedToStopWhileItWaitsItEndsWithWhatItHas) {
  // SIGTERM, since a shell lets what it runs in the background ignore Ctrl-C.
  const Outcome outcome = shell(
      "mkfifo live.cf32; $CLASSIFY live.cf32 > out & pid=$!; exec 3<> live.cf32; head -c 2500 /dev/zero >&3; "
      "for i in $(seq 500); do [ \"$(wc -l < out)\" -ge 2 ] && break; sleep 0.02; done; "
      "kill -TERM $pid; wait $pid; code=$?; cat out; exit $code");
  EXPECT_EQ(outcome.exit_code, 130) << outcome.errors;
  EXPECT_EQ(outcome.lines.size(), 2U);
  expect_has(outcome.errors, "2 frames in");
}

TEST_F(AmcClassify, MemoryDoesNotGrowWithTheInput) {
  constexpr long most_kilobytes = 300'000;  // half of the input
  const Outcome outcome = shell("head -c 600000000 /dev/zero | $CLASSIFY - --every second --rate 1e9");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  ASSERT_EQ(outcome.lines.size(), 1U);
  EXPECT_EQ(Json::parse(outcome.lines[0])["frames"], 600'000'000 / 8 / length);
  rusage usage = {};
  ASSERT_EQ(::getrusage(RUSAGE_CHILDREN, &usage), 0);
  EXPECT_LT(usage.ru_maxrss, most_kilobytes);
}

}  // namespace
}  // namespace podaq::amc
