#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "podaq/core/cancellation.h"
#include "podaq/core/progress.h"

namespace podaq {

/// One progress line for trainings that run side by side; each step is also where Ctrl-C takes effect.
class StudyProgress {
 public:
  StudyProgress(std::string label, std::uint64_t total) : progress_(std::move(label), total) {}

  void step() {
    throw_if_cancelled();
    const std::lock_guard lock(mutex_);
    progress_.advance();
  }

  void finish() {
    const std::lock_guard lock(mutex_);
    progress_.finish();
  }

 private:
  std::mutex mutex_;
  Progress progress_;
};

}  // namespace podaq
