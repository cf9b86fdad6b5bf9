#include "podaq/core/progress.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace podaq {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

// A clock that stands until it is told to move, and a screen that remembers.
struct Screen {
  steady_clock::time_point time{};
  std::vector<std::string> shown;

  ProgressOptions options(ProgressOptions::Style style) {
    return {.write = [this](std::string_view text) { shown.emplace_back(text); },
            .now = [this] { return time; },
            .style = style};
  }
};

TEST(FormatDuration, MinutesAndHours) {
  EXPECT_EQ(format_duration(seconds(0)), "0:00");
  EXPECT_EQ(format_duration(duration<double>(8.6)), "0:09");
  EXPECT_EQ(format_duration(seconds(59)), "0:59");
  EXPECT_EQ(format_duration(duration<double>(59.7)), "1:00");
  EXPECT_EQ(format_duration(seconds(3600 + 2 * 60 + 3)), "1:02:03");
  EXPECT_EQ(format_duration(seconds(-5)), "0:00");
}

TEST(FormatProgress, RateAndTimeLeft) {
  EXPECT_EQ(format_progress("training", {.done = 0, .total = 500, .elapsed = seconds(3)}), "training    0 %  0/500");
  EXPECT_EQ(format_progress("training", {.done = 250, .total = 500, .elapsed = seconds(10)}),
            "training   50 %  250/500  25.0/s  0:10 left");
  EXPECT_EQ(format_progress("training", {.done = 499, .total = 500, .elapsed = seconds(1)}),
            "training   99 %  499/500  499/s  0:00 left");
  EXPECT_EQ(format_progress("training", {.done = 500, .total = 500, .elapsed = seconds(100)}),
            "training  100 %  500/500  5.00/s  in 1:40");
}

TEST(FormatProgress, HasNoRateBeforeTimePasses) {
  EXPECT_EQ(format_progress("a", {.done = 1, .total = 4, .elapsed = seconds(0)}), "a   25 %  1/4");
  EXPECT_EQ(format_progress("a", {.done = 0, .total = 0, .elapsed = seconds(0)}), "a  100 %  0/0");
}

TEST(Progress, PlainLinesComeOncePerTenth) {
  Screen screen;
  Progress progress("work", 1000, screen.options(ProgressOptions::Style::plain_lines));
  for (int step = 0; step < 1000; ++step) {
    screen.time += seconds(1);
    progress.advance();
  }
  progress.finish();
  ASSERT_EQ(screen.shown.size(), 10U);
  EXPECT_EQ(screen.shown.front(), "work   10 %  100/1000  1.00/s  15:00 left\n");
  EXPECT_EQ(screen.shown.back(), "work  100 %  1000/1000  1.00/s  in 16:40\n");
}

TEST(Progress, PlainLinesAreAtLeastASecondApart) {
  Screen screen;
  Progress progress("work", 1000, screen.options(ProgressOptions::Style::plain_lines));
  for (int step = 0; step < 1000; ++step) {
    screen.time += milliseconds(3);
    progress.advance();
  }
  progress.finish();
  EXPECT_EQ(screen.shown.size(), 3U);  // 3 s of work: two lines and the last.
}

TEST(Progress, UpdatingLineIsRewrittenAndWiped) {
  Screen screen;
  Progress progress("work", 4, screen.options(ProgressOptions::Style::updating_line));
  progress.advance();
  screen.time += seconds(100);
  progress.advance();
  screen.time += milliseconds(50);
  progress.advance();  // Too soon after the last.
  screen.time += seconds(1000);
  progress.advance();
  progress.finish();
  ASSERT_EQ(screen.shown.size(), 4U);
  EXPECT_EQ(screen.shown[0], "\rwork   25 %  1/4");
  EXPECT_EQ(screen.shown[1], "\rwork   50 %  2/4  0.02/s  1:40 left");
  EXPECT_EQ(screen.shown[2], "\rwork  100 %  4/4  0.00/s  in 18:20 ");
  EXPECT_EQ(screen.shown[3], "\n");
}

TEST(Progress, FinishesOnce) {
  Screen screen;
  {
    Progress progress("work", 2, screen.options(ProgressOptions::Style::plain_lines));
    progress.advance(2);
    progress.finish();
  }
  EXPECT_EQ(screen.shown.size(), 1U);
}

}  // namespace
}  // namespace podaq
