#include "podaq/data/split_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "podaq/core/error.h"
#include "support/temporary_folder.h"

namespace podaq {
namespace {

/// 3 classes at 4 SNRs, 25 frames each.
struct Source {
  std::vector<std::int32_t> labels = {};
  std::vector<std::int32_t> groups = {};

  Source() {
    for (int row = 0; row < 300; ++row) {
      labels.push_back(row / 100);
      groups.push_back(row / 25 % 4 * 2 - 4);
    }
  }
  [[nodiscard]] Strata strata() const { return {.labels = labels, .groups = groups}; }
};

class SplitFileTest : public testing::Test {
 protected:
  SplitFileTest() {
    split_.options = {.fractions = {0.6, 0.2, 0.2}, .seed = 18446744073709551615ULL};
    split_.parts = stratified_split(source_.strata(), split_.options);
    write_split(path_, split_, source_.strata());
  }

  [[nodiscard]] std::string text() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

  /// The error that the file gives after `what` in it has become `with`.
  [[nodiscard]] std::string refusal(const std::string& what, const std::string& with) const {
    std::string changed = text();
    const auto position = changed.find(what);
    EXPECT_NE(position, std::string::npos) << what;
    changed.replace(position, what.size(), with);
    const auto other = folder_.path() / "changed.json";
    std::ofstream(other) << changed;
    try {
      (void)read_split(other, source_.strata());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::format);
      EXPECT_NE(std::string(error.what()).find(other.string()), std::string::npos) << error.what();
      return error.what();
    }
    return "";
  }

  const test::TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "split.json";
  const Source source_;
  SplitFile split_;
};

TEST_F(SplitFileTest, ReadsBackWhatWasWritten) {
  const SplitFile read = read_split(path_, source_.strata());
  EXPECT_EQ(read.parts, split_.parts);
  EXPECT_EQ(read.options.fractions, split_.options.fractions);
  EXPECT_EQ(read.options.seed, split_.options.seed);
}

TEST_F(SplitFileTest, IsTheSameForTheSameSeedAndHoldsEachCellsShare) {
  const auto again = folder_.path() / "again.json";
  write_split(again, {.options = split_.options, .parts = stratified_split(source_.strata(), split_.options)},
              source_.strata());
  std::ostringstream other;
  other << std::ifstream(again).rdbuf();
  EXPECT_EQ(other.str(), text());
  const std::vector<std::size_t> counts = {15, 5, 5};
  for (std::size_t part = 0; part < 3; ++part) {
    std::map<std::pair<int, int>, std::size_t> cells;
    for (const auto row : split_.parts[part])
      ++cells[{source_.labels[static_cast<std::size_t>(row)], source_.groups[static_cast<std::size_t>(row)]}];
    ASSERT_EQ(cells.size(), 12U);
    for (const auto& [cell, count] : cells) EXPECT_EQ(count, counts[part]);
  }
}

TEST_F(SplitFileTest, BelongsToOneDataSetAlone) {
  Source other;
  std::swap(other.labels.front(), other.labels.back());
  EXPECT_THROW((void)read_split(path_, other.strata()), Error);
  Source regrouped;
  std::swap(regrouped.groups.front(), regrouped.groups.back());
  EXPECT_THROW((void)read_split(path_, regrouped.strata()), Error);
  Source shorter;
  shorter.labels.pop_back();
  shorter.groups.pop_back();
  EXPECT_THROW((void)read_split(path_, shorter.strata()), Error);
}

TEST_F(SplitFileTest, MalformedFilesAreRefusedByField) {
  const auto expect = [](const std::string& text, const std::string& word) {
    EXPECT_NE(text.find(word), std::string::npos) << "no '" << word << "' in: " << text;
  };
  expect(refusal("podaq-split", "other"), "format");
  expect(refusal("\"version\": 1", "\"version\": 2"), "version");
  expect(refusal("\"seed\": 18446744073709551615", "\"seed\": -1"), "seed");
  expect(refusal("0.6", "\"x\""), "fractions");
  expect(refusal("\"rows\": 300", "\"rows\": 301"), "rows");
  expect(refusal("\"parts\"", "\"part\""), "parts");
  expect(refusal("{", "["), "JSON");
  const auto parts = text().substr(text().find("\"parts\""));
  const auto with_parts = [&](const std::string& value) { return refusal(parts, "\"parts\": " + value + "}"); };
  EXPECT_EQ(with_parts(R"(["0-9 12", "10 11 13-299"])"), "");
  expect(with_parts("3"), "parts");
  expect(with_parts("[3]"), "parts");
  expect(with_parts(R"(["0-300"])"), "parts[0]");
  expect(with_parts(R"(["0-99999999999999999999"])"), "parts[0]");
  expect(with_parts(R"(["5-3"])"), "parts[0]");
  expect(with_parts(R"(["5 5"])"), "ascending");
  expect(with_parts(R"(["5", "4-6"])"), "parts[1]: row 5");
  expect(with_parts(R"(["-5"])"), "character 0");
  expect(with_parts(R"(["5,6"])"), "character 1");
  expect(with_parts(R"(["0-299","0-299"])"), "more than the 300");
}

TEST_F(SplitFileTest, RefusesToWritePartsThatOverlap) {
  EXPECT_THROW(write_split(path_, {.parts = {{1, 2}, {2}}}, source_.strata()), Error);
  EXPECT_THROW(write_split(path_, {.parts = {{300}}}, source_.strata()), Error);
  EXPECT_EQ(read_split(path_, source_.strata()).parts, split_.parts);
}

}  // namespace
}  // namespace podaq
