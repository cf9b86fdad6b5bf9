#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace podaq::study_detail {

/// Work that may need other work done first.
struct Job {
  std::function<void()> run;
  std::vector<std::size_t> after = {};  ///< Indices of jobs that must have succeeded, all less than its own.
};

/// Runs the jobs on `threads` threads of their own, each as early in the list as it can. A job that throws keeps only
/// those from running that come after it; the first such exception is thrown again once the others are through.
/// Error(cancelled) ends the queue: jobs under way finish or throw, no other starts, and it is what is thrown.
void run_jobs(const std::vector<Job>& jobs, int threads);

}  // namespace podaq::study_detail
