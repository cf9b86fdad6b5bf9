#include "study/job_queue.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "podaq/core/error.h"

namespace podaq::study_detail {
namespace {

class Queue {
 public:
  explicit Queue(const std::vector<Job>& jobs) : jobs_(jobs), states_(jobs.size(), State::waiting) {}

  void work() {
    while (const std::optional<std::size_t> job = next()) {
      std::exception_ptr failure;
      try {
        jobs_[*job].run();
      } catch (...) {
        failure = std::current_exception();
      }
      finish(*job, failure);
    }
  }

  void rethrow_failure() const {
    if (cancelled_) std::rethrow_exception(cancelled_);
    if (!failures_.empty()) std::rethrow_exception(failures_.front());
  }

 private:
  enum class State : std::uint8_t { waiting, running, done, failed };

  // Waits while jobs under way may free others; none when nothing is left to start.
  std::optional<std::size_t> next() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (cancelled_) return std::nullopt;
      for (std::size_t i = 0; i < jobs_.size(); ++i) {
        if (states_[i] != State::waiting) continue;
        if (any_of(jobs_[i].after, State::failed)) states_[i] = State::failed;
        if (states_[i] == State::failed || !all_done(jobs_[i].after)) continue;
        states_[i] = State::running;
        return i;
      }
      if (std::ranges::find(states_, State::running) == states_.end()) return std::nullopt;
      changed_.wait(lock);
    }
  }

  void finish(std::size_t job, const std::exception_ptr& failure) {
    {
      const std::lock_guard lock(mutex_);
      states_[job] = failure ? State::failed : State::done;
      if (failure) note(failure);
    }
    changed_.notify_all();
  }

  void note(const std::exception_ptr& failure) {
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::cancelled) cancelled_ = failure;
    } catch (...) {  // an exception like any other: kept below
    }
    failures_.push_back(failure);
  }

  [[nodiscard]] bool any_of(const std::vector<std::size_t>& jobs, State state) const {
    return std::ranges::any_of(jobs, [&](std::size_t job) { return states_[job] == state; });
  }
  [[nodiscard]] bool all_done(const std::vector<std::size_t>& jobs) const {
    return std::ranges::all_of(jobs, [&](std::size_t job) { return states_[job] == State::done; });
  }

  const std::vector<Job>& jobs_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<State> states_;
  std::vector<std::exception_ptr> failures_;
  std::exception_ptr cancelled_;
};

}  // namespace

void run_jobs(const std::vector<Job>& jobs, int threads) {
  Queue queue(jobs);
  {
    std::vector<std::jthread> workers;
    for (int worker = 0; worker < threads; ++worker) workers.emplace_back([&] { queue.work(); });
  }
  queue.rethrow_failure();
}

}  // namespace podaq::study_detail
