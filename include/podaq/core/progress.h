#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace podaq {

/// How far a long piece of work has come.
struct ProgressState {
  std::uint64_t done = 0;                    ///< Units of work finished.
  std::uint64_t total = 0;                   ///< Units of work in all.
  std::chrono::duration<double> elapsed{0};  ///< Seconds since the work began.
};

/// One line such as "training   42 %  210/500  31.5/s  0:09 left". Rate and time left appear once there is something
/// to judge them by; finished work shows the time it took instead.
[[nodiscard]] std::string format_progress(std::string_view label, const ProgressState& state);

/// A duration as m:ss or h:mm:ss, rounded to seconds.
[[nodiscard]] std::string format_duration(std::chrono::duration<double> duration);

/// Where progress goes and what time it is.
struct ProgressOptions {
  std::function<void(std::string_view)> write;  ///< Receives text to show; empty: standard error.
  /// The clock.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  /// One line that is rewritten, or one line after another; automatic: the former on a terminal.
  enum class Style : std::uint8_t { automatic, updating_line, plain_lines };
  Style style = Style::automatic;  ///< How progress is shown.
};

/// Shows the progress of long work with its rate and the time left: on a terminal one line that is rewritten at most
/// ten times a second, elsewhere one plain line for each tenth of the work, at most one a second. Not for several
/// threads at once.
class Progress {
 public:
  /// @param total  how many steps the work has; 0 shows nothing until it is finished.
  Progress(std::string label, std::uint64_t total, ProgressOptions options = {});
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Tells that `steps` more are done.
  void advance(std::uint64_t steps = 1);

  /// Shows the last line. Called by the destructor if it was not before.
  void finish();

 private:
  [[nodiscard]] bool is_time_to_show(std::chrono::steady_clock::time_point time) const;
  void show(std::chrono::steady_clock::time_point time);

  std::string label_;
  ProgressOptions options_;
  ProgressState state_;
  bool rewrites_ = false;
  bool finished_ = false;
  bool anything_shown_ = false;
  std::uint64_t last_shown_done_ = 0;
  std::size_t last_shown_width_ = 0;
  std::chrono::steady_clock::time_point begin_;
  std::chrono::steady_clock::time_point last_shown_time_;
};

}  // namespace podaq
