#include "runtime/worker_pool.h"

namespace podaq::runtime_detail {

namespace {

// Going to sleep and waking up takes longer than a small network; a caller that runs one batch after another is worth
// waiting for a while.
constexpr int spins_before_sleep = 4000;

// Returns when `counter` no longer has the value `before`.
void wait_for_change(const std::atomic<std::uint32_t>& counter, std::uint32_t before) {
  for (int spin = 0; spin < spins_before_sleep; ++spin) {
    if (counter.load(std::memory_order_acquire) != before) return;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  counter.wait(before, std::memory_order_acquire);
}

}  // namespace

WorkerPool::WorkerPool(std::size_t helpers) {
  helpers_.reserve(helpers);
  try {
    for (std::size_t helper = 0; helper < helpers; ++helper)
      helpers_.emplace_back([this, helper] { serve(helper + 1); });
  } catch (...) {
    stop();
    throw;
  }
}

WorkerPool::~WorkerPool() {
  stop();
}

void WorkerPool::stop() {
  stops_ = true;
  calls_.fetch_add(1, std::memory_order_release);
  calls_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void WorkerPool::run(Work work, void* context) {
  work_ = work;
  context_ = context;
  busy_.store(static_cast<std::uint32_t>(helpers_.size()), std::memory_order_relaxed);
  calls_.fetch_add(1, std::memory_order_release);
  calls_.notify_all();
  work(context, 0);
  for (std::uint32_t left = busy_.load(std::memory_order_acquire); left != 0;
       left = busy_.load(std::memory_order_acquire))
    wait_for_change(busy_, left);
}

void WorkerPool::serve(std::size_t worker) {
  for (std::uint32_t seen = 0;;) {
    wait_for_change(calls_, seen);
    ++seen;
    if (stops_) return;
    work_(context_, worker);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
  }
}

}  // namespace podaq::runtime_detail
