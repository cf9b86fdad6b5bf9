#include "podaq/core/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "podaq/core/text.h"

namespace podaq {
namespace {

using std::chrono::steady_clock;

constexpr auto shortest_time_between_updates = std::chrono::milliseconds(100);
constexpr auto shortest_time_between_lines = std::chrono::seconds(1);
constexpr std::uint64_t plain_lines = 10;

std::string two_digits(std::int64_t number) {
  return concat(number < 10 ? "0" : "", number);
}

// Three figures are enough to read and few enough not to flicker.
std::string format_rate(double per_second) {
  const int decimals = per_second >= 100 ? 0 : per_second >= 10 ? 1 : 2;
  char digits[64];
  const auto result = std::to_chars(digits, digits + sizeof digits, per_second, std::chars_format::fixed, decimals);
  return {digits, result.ptr};
}

void write_to_standard_error(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

std::string format_duration(std::chrono::duration<double> duration) {
  constexpr double longest = 1e9;  // Beyond this the seconds would not fit; nobody waits for them.
  const double bounded = std::clamp(duration.count(), 0.0, longest);
  const auto seconds = static_cast<std::int64_t>(std::llround(bounded));
  const std::int64_t hours = seconds / 3600;
  const std::int64_t minutes = seconds / 60 % 60;
  if (hours > 0) return concat(hours, ":", two_digits(minutes), ":", two_digits(seconds % 60));
  return concat(minutes, ":", two_digits(seconds % 60));
}

std::string format_progress(std::string_view label, const ProgressState& state) {
  const double fraction =
      state.total == 0 ? 1.0 : std::min(1.0, static_cast<double>(state.done) / static_cast<double>(state.total));
  const auto percent = static_cast<int>(100.0 * fraction);
  std::string line = concat(label,
                            percent < 10    ? "    "
                            : percent < 100 ? "   "
                                            : "  ",
                            percent, " %  ", state.done, "/", state.total);
  const double rate = static_cast<double>(state.done) / state.elapsed.count();
  if (state.done == 0 || !std::isfinite(rate)) return line;
  line += concat("  ", format_rate(rate), "/s  ");
  if (state.done >= state.total) return line + concat("in ", format_duration(state.elapsed));
  const auto left = std::chrono::duration<double>(static_cast<double>(state.total - state.done) / rate);
  return line + concat(format_duration(left), " left");
}

Progress::Progress(std::string label, std::uint64_t total, ProgressOptions options)
    : label_(std::move(label)), options_(std::move(options)), state_{.done = 0, .total = total, .elapsed = {}} {
  if (!options_.write) options_.write = write_to_standard_error;
  rewrites_ = options_.style == ProgressOptions::Style::automatic
                  ? ::isatty(STDERR_FILENO) != 0
                  : options_.style == ProgressOptions::Style::updating_line;
  begin_ = options_.now();
  last_shown_time_ = begin_;
}

Progress::~Progress() {
  finish();
}

void Progress::advance(std::uint64_t steps) {
  state_.done += steps;
  const auto time = options_.now();
  if (state_.done < state_.total && is_time_to_show(time)) show(time);
}

void Progress::finish() {
  if (std::exchange(finished_, true)) return;
  show(options_.now());
  if (rewrites_) options_.write("\n");
}

bool Progress::is_time_to_show(steady_clock::time_point time) const {
  if (rewrites_) return !anything_shown_ || time - last_shown_time_ >= shortest_time_between_updates;
  const auto tenth = [this](std::uint64_t done) {
    return static_cast<std::uint64_t>(static_cast<double>(done) / static_cast<double>(state_.total) * plain_lines);
  };
  return tenth(state_.done) > tenth(last_shown_done_) && time - last_shown_time_ >= shortest_time_between_lines;
}

void Progress::show(steady_clock::time_point time) {
  state_.elapsed = time - begin_;
  const std::string line = format_progress(label_, state_);
  if (rewrites_) {
    // Spaces wipe what a longer line left behind.
    const std::size_t leftover = last_shown_width_ > line.size() ? last_shown_width_ - line.size() : 0;
    options_.write(concat("\r", line, std::string(leftover, ' ')));
  } else {
    options_.write(concat(line, "\n"));
  }
  anything_shown_ = true;
  last_shown_done_ = state_.done;
  last_shown_width_ = line.size();
  last_shown_time_ = time;
}

}  // namespace podaq
