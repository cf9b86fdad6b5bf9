#include "study/job_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "podaq/core/error.h"

namespace podaq::study_detail {
namespace {

class RunJobs : public testing::TestWithParam<int> {
 protected:
  Job job(int name, std::vector<std::size_t> after = {}) {
    return {.run =
                [this, name] {
                  const std::lock_guard lock(mutex_);
                  done_.push_back(name);
                },
            .after = std::move(after)};
  }
  [[nodiscard]] std::ptrdiff_t place(int name) const { return std::ranges::find(done_, name) - done_.begin(); }

  std::mutex mutex_;
  std::vector<int> done_;
};

TEST_P(RunJobs, EachRunsOnceAndAfterThoseItNeeds) {
  run_jobs({job(0), job(1, {0}), job(2, {0}), job(3, {1, 2}), job(4)}, GetParam());
  EXPECT_EQ(done_.size(), 5U);
  for (const auto& [before, after] : {std::pair(0, 1), {0, 2}, {1, 3}, {2, 3}}) EXPECT_LT(place(before), place(after));
}

TEST_P(RunJobs, AFailureStopsOnlyThoseThatNeedIt) {
  const Job failing{.run = [] { throw std::runtime_error("no"); }};
  EXPECT_THROW(run_jobs({failing, job(1, {0}), job(2), job(3, {1}), job(4, {2})}, GetParam()), std::runtime_error);
  std::ranges::sort(done_);
  EXPECT_EQ(done_, (std::vector<int>{2, 4}));
}

TEST_P(RunJobs, CancellationStartsNoOther) {
  const Job failing{.run = [] { throw std::runtime_error("no"); }};
  const Job cancelled{.run = [] { throw Error(ErrorCode::cancelled, "stop"); }, .after = {}};
  std::vector<Job> jobs = {failing, cancelled};
  for (int i = 2; i < 5; ++i) jobs.push_back(job(i, {1}));
  EXPECT_THROW(run_jobs(jobs, GetParam()), Error);
  EXPECT_TRUE(done_.empty());
}

INSTANTIATE_TEST_SUITE_P(Threads, RunJobs, testing::Values(1, 2, 7));

}  // namespace
}  // namespace podaq::study_detail
