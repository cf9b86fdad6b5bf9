#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace podaq::runtime_detail {

/// Threads that wait for work, which all of them and the caller then do together. Neither allocates nor locks after
/// construction.
class WorkerPool {
 public:
  /// What each worker does once; `worker` is 0 on the caller's thread and counts up on the others. May not throw.
  using Work = void (*)(void* context, std::size_t worker);

  /// @param helpers  Threads beside the caller's. Throws std::system_error where they cannot be started.
  explicit WorkerPool(std::size_t helpers);
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;
  ~WorkerPool();

  /// Has every worker do `work` and returns when all have done it. One caller at a time.
  void run(Work work, void* context);

 private:
  void stop();
  void serve(std::size_t worker);

  Work work_ = nullptr;
  void* context_ = nullptr;
  bool stops_ = false;
  std::atomic<std::uint32_t> calls_{0};  ///< Published after the three fields above.
  std::atomic<std::uint32_t> busy_{0};   ///< Helpers that have not finished.
  std::vector<std::thread> helpers_;
};

}  // namespace podaq::runtime_detail
