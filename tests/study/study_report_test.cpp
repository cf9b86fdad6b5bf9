#include "podaq/study/study_report.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "podaq/core/error.h"
#include "study/gnuplot.h"
#include "study/html_text.h"

namespace podaq {
namespace {

constexpr const char* dense_recipe = "[epochs]\ndense = 6\n";
constexpr const char* short_recipe = "[epochs]\ndense = 2\n";
constexpr const char* pruned_recipe = "[epochs]\nprune = 4\n[prune]\nsparsity = 0.5\n";

PointResult point_of(const std::string& strategy, std::uint64_t seed, const std::string& recipe, double epochs,
                     std::int64_t right, std::uint64_t bytes) {
  PointResult point{.strategy = strategy, .seed = seed, .recipe = recipe, .own_epochs = epochs};
  point.measured.all = {.right = right, .total = 1000};
  point.measured.high_groups = Score{.right = right / 2, .total = 500};
  point.measured.by_group = {{-10, {.right = right / 4, .total = 500}}, {10, {.right = right / 2, .total = 500}}};
  point.measured.confusion = {{10, {200, 50, 20, 230}}, {-10, {1, 2, 3, 4}}};
  point.measured.file_bytes = bytes;
  point.measured.ratio = 4000.0 / static_cast<double>(bytes);
  point.measured.section_bytes = {{"header", 10}, {"codes", bytes - 10}};
  point.measured.figures = {{"score", 0.5}};
  point.podaq.median_us = 10;
  point.libtorch.median_us = 200;
  point.class_names = {"<b>BPSK</b>", "8PSK"};
  return point;
}

StudyResult three_rows() {
  StudyResult result{.task = "task & co", .description = "a <description>", .host = "host"};
  result.seeds = {1, 2};
  result.strategies = {"short", "dense", "pruned"};
  result.class_names = {"<b>BPSK</b>", "8PSK"};
  result.confusion_groups = {10};
  result.points = {
      point_of("short", 1, short_recipe, 2, 700, 1000),  point_of("short", 2, short_recipe, 2, 720, 1000),
      point_of("dense", 1, dense_recipe, 6, 800, 1000),  point_of("dense", 2, dense_recipe, 6, 820, 1000),
      point_of("pruned", 1, pruned_recipe, 4, 790, 100), point_of("pruned", 2, pruned_recipe, 4, 806, 120)};
  return result;
}

TEST(StatisticOf, IsMeanAndSampleDeviation) {
  const std::vector<double> numbers = {1, 2, 6};
  const Statistic statistic = statistic_of(numbers);
  EXPECT_DOUBLE_EQ(statistic.mean, 3);
  EXPECT_DOUBLE_EQ(statistic.deviation, std::sqrt((4.0 + 1 + 9) / 2));
  EXPECT_EQ(statistic.count, 3);
  EXPECT_EQ(statistic_of(std::vector<double>{5}).deviation, 0);
}

// The dense row of six epochs is what pruning for four is compared with, not the better known one of two.
TEST(Summarize, ComparesWithTheShortestDenseRowOfAtLeastAsManyEpochs) {
  const std::vector<RowSummary> rows = summarize(three_rows());
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_FALSE(rows[1].to_dense.has_value());
  const PairedDifference& difference = rows[2].to_dense.value();
  EXPECT_EQ(difference.reference, "dense");
  EXPECT_NEAR(difference.accuracy.mean, -0.012, 1e-12);  // -0.010 and -0.014, seed by seed
  EXPECT_NEAR(difference.accuracy.deviation, 0.004 / std::sqrt(2.0), 1e-12);
  EXPECT_EQ(rows[2].by_group.at(10).total, 1000);
  EXPECT_DOUBLE_EQ(rows[2].speedup.mean, 20);
}

TEST(Summarize, ComparesADistilledRowWithTheDistilledDenseOneAsWell) {
  StudyResult result = three_rows();
  result.strategies.emplace_back("taught");
  result.strategies.emplace_back("dense-taught");
  for (const std::uint64_t seed : {1, 2}) {
    result.points.push_back(point_of("taught", seed, pruned_recipe, 4, 800, 90));
    result.points.back().teacher = "dense";
  }
  for (const std::uint64_t seed : {1, 2}) {
    result.points.push_back(point_of("dense-taught", seed, dense_recipe, 6, 830, 1000));
    result.points.back().teacher = "dense";
  }
  const std::vector<RowSummary> rows = summarize(result);
  EXPECT_EQ(rows[3].to_dense->reference, "dense");
  EXPECT_EQ(rows[3].to_distilled_dense->reference, "dense-taught");
  EXPECT_NEAR(rows[3].to_distilled_dense->accuracy.mean, -0.03, 1e-12);
  EXPECT_EQ(rows[4].to_dense->reference, "dense");
  EXPECT_FALSE(rows[4].to_distilled_dense.has_value());
  EXPECT_FALSE(rows[2].to_distilled_dense.has_value());
}

TEST(Summarize, TheFrontIsWhatNoRowBeats) {
  const std::vector<RowSummary> rows = summarize(three_rows());
  EXPECT_FALSE(rows[0].is_on_front);  // as large as dense, and worse
  EXPECT_TRUE(rows[1].is_on_front);
  EXPECT_TRUE(rows[2].is_on_front);
}

TEST(StudyJson, HoldsRowsAndPointsWithTheChosenMatrices) {
  const auto json = nlohmann::json::parse(to_json(three_rows(), "amc study x.toml"));
  EXPECT_EQ(json.at("command"), "amc study x.toml");
  EXPECT_EQ(json.at("rows").size(), 3U);
  EXPECT_EQ(json.at("points").size(), 6U);
  EXPECT_EQ(json.at("points")[0].at("measured").at("confusion_by_group").size(), 1U);
  EXPECT_EQ(json.at("rows")[2].at("to_dense").at("reference"), "dense");
  EXPECT_EQ(json.at("rows")[2].at("by_group").size(), 2U);
}

TEST(StudyTable, NamesEachRow) {
  const std::string table = format_table(three_rows());
  for (const char* part : {"short", "dense", "pruned", "79.80 %", "-1.20 ± 0.28", "score", "20.0x"})
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
}

TEST(StudyHtml, NeedsNothingElseAndEscapesAllText) {
  const std::string html = to_html(three_rows(), {.command = "amc \"study\" <x>", .plots = false});
  for (const char* forbidden :
       {"http://", "https://", "src=", "<script", "@import", "url(", "<b>BPSK", "<x>", "<description>"})
    EXPECT_EQ(html.find(forbidden), std::string::npos) << forbidden;
  for (const char* part : {"prefers-color-scheme: dark", "&lt;b&gt;BPSK&lt;/b&gt;", "task &amp; co",
                           "a &lt;description", "&quot;study&quot;", "score", "-1.20 ± 0.28 (dense)", "at 10 dB"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
  EXPECT_EQ(html.find("at -10 dB"), std::string::npos);
}

class PlotSvg : public testing::Test {
 protected:
  void SetUp() override {
    try {
      study_detail::require_gnuplot();
    } catch (const Error&) {
      GTEST_SKIP() << "gnuplot is not installed";
    }
  }
};

TEST_F(PlotSvg, FollowsThePagesColoursAndNamesItself) {
  const std::string html = to_html(three_rows(), {.command = "amc study"});
  std::size_t plots = 0;
  for (std::size_t at = html.find("<svg"); at != std::string::npos; at = html.find("<svg", at + 1)) ++plots;
  EXPECT_EQ(plots, 3U);
  for (const char* forbidden : {"rgb(", "'white'", "\"black\"", "<?xml", "id='gp", "href='#gp"})
    EXPECT_EQ(html.find(forbidden), std::string::npos) << forbidden;
  for (const char* part : {"role=\"img\"", "<title id=\"groups-title\">", "aria-labelledby=\"bytes-title ",
                           "currentColor", "var(--series-2)", "var(--grid)"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
}

TEST_F(PlotSvg, TellsWhatGnuplotSays) {
  try {
    static_cast<void>(study_detail::plot_svg("plot nonsense(\n", {.id = "a", .title = "A plot", .description = ""}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("A plot"), std::string::npos) << error.what();
    EXPECT_GT(std::string(error.what()).size(), 40U) << error.what();
  }
}

TEST(RequireReportTools, NamesThePackageWhereGnuplotIsMissing) {
  const std::string path = std::getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  std::string text;
  try {
    require_report_tools({.command = ""});
  } catch (const Error& error) {
    text = error.what();
  }
  EXPECT_NO_THROW(require_report_tools({.command = "", .plots = false}));
  setenv("PATH", path.c_str(), 1);
  EXPECT_NE(text.find("apt-get install gnuplot-nox"), std::string::npos) << text;
}

}  // namespace
}  // namespace podaq
