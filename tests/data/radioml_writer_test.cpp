#include "podaq/data/radioml_writer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <numeric>

#include "podaq/core/error.h"
#include "podaq/data/radioml_file.h"
#include "support/temporary_folder.h"

namespace podaq {
namespace {

const RadioMlLayout layout = {
    .size = 100, .frame_length = 16, .class_names = {"8PSK", "AM-DSB", "BPSK"}, .snr_grid = {-4, 0, 6}};

struct Frames {
  std::vector<float> samples = {};
  std::vector<std::int32_t> labels = {};
  std::vector<std::int32_t> snrs = {};

  Frames() {
    for (std::int32_t row = 0; row < 100; ++row) {
      labels.push_back(row % 3);
      snrs.push_back(layout.snr_grid[static_cast<std::size_t>(row / 3 % 3)]);
      for (int i = 0; i < 32; ++i) samples.push_back(static_cast<float>(row * 32 + i));
    }
  }

  void append(RadioMlWriter& writer, std::size_t first, std::size_t count) const {
    writer.append(std::span(samples).subspan(first * 32, count * 32), std::span(labels).subspan(first, count),
                  std::span(snrs).subspan(first, count));
  }
};

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(RadioMlWriter, WhatIsWrittenIsReadBackWithNamesAndGrid) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "set.hdf5";
  const Frames frames;
  RadioMlWriter writer(path, layout);
  for (const std::size_t first : {0U, 1U, 40U}) frames.append(writer, first, first == 0 ? 1 : first == 1 ? 39 : 60);
  EXPECT_FALSE(std::filesystem::exists(path));
  writer.finish();

  RadioMlReader reader(path);
  EXPECT_EQ(reader.class_names(), layout.class_names);
  EXPECT_EQ(reader.snr_grid(), layout.snr_grid);
  EXPECT_EQ(std::vector(reader.labels().begin(), reader.labels().end()), frames.labels);
  EXPECT_EQ(std::vector(reader.snrs_db().begin(), reader.snrs_db().end()), frames.snrs);
  std::vector<std::int64_t> rows(100);
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<float> samples(frames.samples.size());
  reader.read(rows, samples);
  EXPECT_EQ(samples, frames.samples);
}

TEST(RadioMlWriter, BytesDependOnTheContentAlone) {
  const test::TemporaryFolder folder;
  const Frames frames;
  for (const std::size_t step : {1U, 7U, 100U}) {
    RadioMlWriter writer(folder.path() / std::to_string(step), layout);
    for (std::size_t first = 0; first < 100; first += step) frames.append(writer, first, std::min(step, 100 - first));
    writer.finish();
  }
  EXPECT_EQ(bytes_of(folder.path() / "1"), bytes_of(folder.path() / "7"));
  EXPECT_EQ(bytes_of(folder.path() / "1"), bytes_of(folder.path() / "100"));
}

TEST(RadioMlWriter, AFileThatIsNotFinishedLeavesNothing) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "set.hdf5";
  const Frames frames;
  {
    RadioMlWriter writer(path, layout);
    frames.append(writer, 0, 99);
    EXPECT_THROW(writer.finish(), Error);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(RadioMlWriter, RefusesWhatItsReaderWouldRefuse) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "set.hdf5";
  const auto refuses = [&](auto change) {
    RadioMlLayout changed = layout;
    change(changed);
    EXPECT_THROW(RadioMlWriter(path, changed), Error);
  };
  refuses([](RadioMlLayout& l) { l.size = 0; });
  refuses([](RadioMlLayout& l) { l.frame_length = (1 << 20) + 1; });
  refuses([](RadioMlLayout& l) { l.class_names.clear(); });
  refuses([](RadioMlLayout& l) { l.class_names[1] = "A,B"; });
  refuses([](RadioMlLayout& l) { l.class_names[1] = "BPSK"; });
  refuses([](RadioMlLayout& l) { l.class_names[1] = ""; });
  refuses([](RadioMlLayout& l) { l.snr_grid = {0, 0}; });
  refuses([](RadioMlLayout& l) { l.snr_grid = {201}; });
  EXPECT_THROW(RadioMlWriter("/nonexistent/set.hdf5", layout), Error);

  RadioMlWriter writer(path, layout);
  std::vector<float> frame(32, 1);
  const auto append = [&](std::int32_t label, std::int32_t snr) {
    writer.append(frame, std::vector{label}, std::vector{snr});
  };
  EXPECT_THROW(append(3, 0), Error);
  EXPECT_THROW(append(-1, 0), Error);
  EXPECT_THROW(append(0, 2), Error);
  frame[17] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(append(0, 0), Error);
  frame.pop_back();
  EXPECT_THROW(append(0, 0), Error);
  Frames frames;
  frames.append(writer, 0, 100);  // nothing of the refused ones was added
  EXPECT_THROW(frames.append(writer, 0, 1), Error);
  writer.finish();
}

}  // namespace
}  // namespace podaq
