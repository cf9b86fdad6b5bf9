#include "amc/synthesis/synthesis_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>

#include "podaq/core/error.h"
#include "podaq/data/radioml_file.h"
#include "support/temporary_folder.h"

namespace podaq::amc {
namespace {

Impairments impairments(const std::string& name) {
  return load_impairments(std::filesystem::path(PODAQ_AMC_FOLDER) / "impairments" / name);
}

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// 50 160 frames over several blocks: labels that go astray do so with several workers and in large sets.
TEST(SynthesisFile, Case61TheFileDoesNotDependOnThreadsAndEachRowIsWhatItsLabelsSay) {
  const test::TemporaryFolder folder;
  constexpr int frames_per_cell = 228;
  auto options = standard_options(ClassSet::radioml2016, frames_per_cell, 61, impairments("cheap_receiver.toml"));
  const auto path = folder.path() / "one.hdf5";
  options.threads = 1;
  synthesize_to_file(options, path);
  const std::string alone = bytes_of(path);
  for (const int threads : {2, 16}) {
    options.threads = threads;
    const auto other = folder.path() / "several.hdf5";
    synthesize_to_file(options, other);
    EXPECT_TRUE(bytes_of(other) == alone) << threads;
  }

  RadioMlReader reader(path);  // it accepts one-hot rows of Y alone
  ASSERT_EQ(reader.size(), 11 * 20 * frames_per_cell);
  std::map<std::pair<std::int32_t, std::int32_t>, int> cells;
  for (std::size_t row = 0; row < reader.labels().size(); ++row) ++cells[{reader.labels()[row], reader.snrs_db()[row]}];
  EXPECT_EQ(cells.size(), 220U);
  for (const auto& [cell, count] : cells) EXPECT_EQ(count, frames_per_cell);

  Synthesizer synthesizer(options.impairments, options.frame_length);
  std::vector<float> expected(256), read(256);
  CounterRandom random({.seed = 100});
  for (int i = 0; i < 100; ++i) {
    const std::vector<std::int64_t> row = {random.below(static_cast<std::uint32_t>(reader.size()))};
    const auto position = static_cast<std::size_t>(row[0]);
    const auto label = static_cast<std::size_t>(reader.labels()[position]);
    EXPECT_EQ(reader.class_names()[label], classes(options.set)[label].name);
    synthesizer.frame({.seed = 61,
                       .modulation = classes(options.set)[label].modulation,
                       .snr_db = reader.snrs_db()[position],
                       .index = static_cast<std::uint32_t>(row[0] % frames_per_cell)},
                      expected);
    reader.read(row, read);
    EXPECT_EQ(read, expected) << row[0];
  }
}

TEST(SynthesisFile, HoldsWhatSynthesisInMemoryGives) {
  const test::TemporaryFolder folder;
  const auto options = standard_options(ClassSet::radioml2018, 1, 62, impairments("radioml2016.toml"));
  synthesize_to_file(options, folder.path() / "set.hdf5");
  RadioMlReader reader(folder.path() / "set.hdf5");
  const Dataset dataset = synthesize(options);
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < reader.size(); ++row) rows.push_back(row);
  const Dataset loaded = load_frames(reader, rows);
  EXPECT_EQ(loaded.samples, dataset.samples);
  EXPECT_EQ(loaded.labels, dataset.labels);
  EXPECT_EQ(loaded.groups, dataset.groups);
  EXPECT_EQ(loaded.class_names, dataset.class_names);
}

TEST(SynthesisFile, WhatIsStoppedLeavesNothing) {
  const test::TemporaryFolder folder;
  const auto options = standard_options(ClassSet::radioml2016, 10, 63, impairments("radioml2016.toml"));
  EXPECT_THROW(synthesize_to_file(options, folder.path() / "set.hdf5",
                                  [](std::int64_t, std::int64_t) { throw std::runtime_error("stop"); }),
               std::runtime_error);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  auto none = options;
  none.frames_per_cell = 0;
  EXPECT_THROW(synthesize_to_file(none, folder.path() / "set.hdf5"), Error);
  EXPECT_THROW(synthesize_to_file(options, folder.path() / "no" / "set.hdf5"), Error);
}

TEST(ClassNames, OfThe2018SetAreThoseOfTheReader) {
  const auto named = classes(ClassSet::radioml2018);
  const auto names = radioml2018_class_names();
  ASSERT_EQ(named.size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) EXPECT_STREQ(named[i].name, names[i]);
  const auto grid = snr_grid(ClassSet::radioml2018);
  EXPECT_TRUE(std::ranges::equal(grid, radioml2018_snr_grid()));
}

}  // namespace
}  // namespace podaq::amc
