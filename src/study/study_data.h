#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "podaq/study/task.h"

namespace podaq::study_detail {

/// The data of a study's seeds: loaded when first asked for, freed when nobody who was announced needs them any more.
class StudyData {
 public:
  StudyData(const Task& task, int threads) : task_(task), threads_(threads) {}

  /// One more that will `take` and `give_back` the seed's data.
  void announce(std::uint64_t seed) { ++sets_[seed].users; }

  /// The seed's data. Others wait while they load.
  [[nodiscard]] std::shared_ptr<const TaskData> take(std::uint64_t seed) {
    const std::lock_guard lock(mutex_);
    Entry& entry = sets_[seed];
    if (!entry.data) entry.data = std::make_shared<const TaskData>(task_.load_data(seed, threads_));
    return entry.data;
  }

  /// One of the announced is through.
  void give_back(std::uint64_t seed) {
    const std::lock_guard lock(mutex_);
    Entry& entry = sets_[seed];
    if (--entry.users == 0) entry.data.reset();
  }

 private:
  struct Entry {
    std::shared_ptr<const TaskData> data;
    int users = 0;
  };
  const Task& task_;
  int threads_;
  std::mutex mutex_;
  std::map<std::uint64_t, Entry> sets_;
};

}  // namespace podaq::study_detail
