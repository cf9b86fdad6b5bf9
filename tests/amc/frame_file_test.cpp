#include "amc/frame_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "amc/amc_task.h"
#include "amc/synthesis/synthesis_file.h"
#include "podaq/core/error.h"
#include "podaq/data/split_file.h"
#include "support/temporary_folder.h"

namespace podaq::amc {
namespace {

/// 11 classes, 20 SNRs, 20 frames each.
class FrameFileTest : public testing::Test {
 protected:
  void SetUp() override { synthesize_to_file(standard_options(ClassSet::radioml2016, 20, 9, {}), file_); }

  [[nodiscard]] std::string refusal(const FrameFileOptions& options) const {
    try {
      FrameFile file(options);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  /// Frames in each cell, which must all hold the same number.
  static std::size_t frames_per_cell(const Dataset& dataset) {
    std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> cells;
    for (std::size_t row = 0; row < dataset.labels.size(); ++row) ++cells[{dataset.labels[row], dataset.groups[row]}];
    EXPECT_EQ(cells.size(), 220U);
    const auto first = cells.begin()->second;
    EXPECT_TRUE(std::ranges::all_of(cells, [first](const auto& cell) { return cell.second == first; }));
    return first;
  }

  const test::TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_.path() / "set.hdf5";
};

TEST_F(FrameFileTest, PartsHoldTheirShareOfEachCellAndNothingTwice) {
  const TaskData all = FrameFile({.file = file_}).load(1);
  EXPECT_EQ(frames_per_cell(all.train), 12U);
  EXPECT_EQ(frames_per_cell(all.validation), 4U);
  EXPECT_EQ(frames_per_cell(all.test), 4U);
  std::map<std::vector<float>, int> seen;
  for (const Dataset* part : {&all.train, &all.validation, &all.test})
    for (std::int64_t row = 0; row < part->size(); ++row) ++seen[{part->sample(row).begin(), part->sample(row).end()}];
  EXPECT_EQ(seen.size(), 4400U);

  const TaskData share = FrameFile({.file = file_, .frames_per_cell = 5}).load(1);
  EXPECT_EQ(frames_per_cell(share.train), 3U);
  EXPECT_EQ(frames_per_cell(share.validation), 1U);
  EXPECT_EQ(frames_per_cell(share.test), 1U);
  EXPECT_EQ(FrameFile({.file = file_, .frames_per_cell = 5}).load(1).train.samples, share.train.samples);
  EXPECT_NE(FrameFile({.file = file_, .frames_per_cell = 5}).load(2).train.samples, share.train.samples);
}

TEST_F(FrameFileTest, ASplitFileDecidesWhichRowsAreTested) {
  const RadioMlReader reader(file_);
  const Strata strata{.labels = reader.labels(), .groups = reader.snrs_db()};
  const auto split = folder_.path() / "split.json";
  write_split(split, {.parts = {{0, 1, 2, 20, 21}, {4, 5}, {4399}}}, strata);
  FrameFile file({.file = file_, .split = split});
  for (const std::uint64_t seed : {1U, 2U}) {
    const TaskData data = file.load(seed);
    EXPECT_EQ(data.train.size(), 5);
    EXPECT_EQ(data.train.groups.back(), -18);
    EXPECT_EQ(data.test.labels, std::vector<std::int32_t>{10});
  }
  write_split(split, {.parts = {{0}, {4}}}, strata);
  EXPECT_NE(refusal({.file = file_, .split = split}).find("2 parts"), std::string::npos);
}

// 4 400 frames of 1 KiB.
TEST_F(FrameFileTest, MoreThanTheMemoryIsRefusedWithTheBytesAndWhatFits) {
  const std::string text = refusal({.file = file_, .memory_gib = 1.0 / 1024});
  EXPECT_NE(text.find("4505600 bytes"), std::string::npos) << text;
  EXPECT_NE(text.find("--frames-per-cell 4 fit"), std::string::npos) << text;
  EXPECT_EQ(refusal({.file = file_, .frames_per_cell = 4, .memory_gib = 1.0 / 1024}), "");
  EXPECT_NE(refusal({.file = file_, .memory_gib = 0}), "");
  EXPECT_NE(refusal({.file = file_, .frames_per_cell = -1}), "");
  EXPECT_NE(refusal({.file = folder_.path() / "none.hdf5"}), "");
}

// Gaps of a recording come as NaN: bytes 00 00 C0 7F.
TEST_F(FrameFileTest, Case59TrainingRefusesANanWithFileDatasetAndRow) {
  RadioMlReader reader(file_);
  std::vector<float> frame(256);
  reader.read(std::vector<std::int64_t>{3}, frame);
  std::vector<float> pairs;
  for (std::size_t sample = 0; sample < 128; ++sample) pairs.insert(pairs.end(), {frame[sample], frame[128 + sample]});
  const std::string row(reinterpret_cast<const char*>(pairs.data()), pairs.size() * sizeof(float));
  std::fstream stream(file_, std::ios::in | std::ios::out | std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(stream)), {});
  const auto position = bytes.find(row);
  ASSERT_NE(position, std::string::npos);
  for (std::size_t sample = 40; sample < 45; ++sample) {
    stream.seekp(static_cast<std::streamoff>(position + 8 * sample));
    stream.write("\0\0\xC0\x7F\0\0\xC0\x7F", 8);
  }
  stream.close();
  const Task task = make_task({.data = {.file = file_}});
  try {
    (void)task.load_data(1, 1);
    FAIL() << "trained on NaN";
  } catch (const Error& error) {
    const std::string text = error.what();
    for (const std::string& word :
         {file_.string(), std::string("'X'"), std::string("row 3:"), std::string("sample 40")})
      EXPECT_NE(text.find(word), std::string::npos) << "no " << word << " in " << text;
  }
}

TEST_F(FrameFileTest, TheIdentityIsOfWhatTheFileHoldsAndWhatIsTakenOfIt) {
  const std::string identity = FrameFile({.file = file_}).identity();
  const auto copy = folder_.path() / "copy.hdf5";
  std::filesystem::copy_file(file_, copy);
  EXPECT_EQ(FrameFile({.file = copy}).identity(), identity);
  EXPECT_NE(FrameFile({.file = file_, .frames_per_cell = 5}).identity(), identity);
  const RadioMlReader reader(file_);
  const auto split = folder_.path() / "split.json";
  write_split(split, {.parts = {{0}, {1}, {2}}}, {.labels = reader.labels(), .groups = reader.snrs_db()});
  EXPECT_NE(FrameFile({.file = file_, .split = split}).identity(), identity);
  synthesize_to_file(standard_options(ClassSet::radioml2016, 20, 10, {}), copy);
  EXPECT_NE(FrameFile({.file = copy}).identity(), identity);
}

TEST_F(FrameFileTest, AStudyFileMayNameTheFile) {
  const auto word = [](const std::string& text) { return TaskWord{.text = text, .origin = "study.toml:3"}; };
  const TaskOptions options = task_options({{"data", word("set.hdf5")},
                                            {"split", word("split.json")},
                                            {"frames_per_cell", word("30")},
                                            {"memory_gib", word("1.5")}});
  EXPECT_EQ(options.data.file, "set.hdf5");
  EXPECT_EQ(options.data.split, "split.json");
  EXPECT_EQ(options.data.frames_per_cell, 30);
  EXPECT_EQ(options.data.memory_gib, 1.5);
  for (const char* wrong : {"-1", "2.5", "1e30", "x"})
    EXPECT_THROW((void)task_options({{"frames_per_cell", word(wrong)}}), Error) << wrong;
}

TEST_F(FrameFileTest, TheTaskTakesLengthAndClassesFromTheFile) {
  // A file of the quick set under the full preset: 11 classes and 128 samples all the same.
  const Task task = make_task({.preset = "full", .data = {.file = file_, .frames_per_cell = 5}});
  EXPECT_EQ(task.name, "amc-full-file");
  EXPECT_EQ(task.load_data(1, 1).test.size(), 220);
  EXPECT_EQ(task.make_network(1).forward(torch::zeros({3, 2, 128})).size(1), 11);
  EXPECT_THROW((void)make_task({.scale = 0.5, .data = {.file = file_}}), Error);
  EXPECT_THROW((void)make_task({.data = {.file = folder_.path() / "none.hdf5"}}), Error);
}

}  // namespace
}  // namespace podaq::amc
