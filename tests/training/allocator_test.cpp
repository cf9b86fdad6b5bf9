#include "podaq/training/allocator.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>
#include <memory>
#include <thread>

namespace podaq {
namespace {

long page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

// Allocates, touches and frees what a training step might: at least 40 pages, be they huge.
void use_memory() {
  constexpr std::size_t bytes = std::size_t{80} << 20;
  const std::unique_ptr<char[]> memory(new char[bytes]);
  std::memset(memory.get(), 1, bytes);
  asm volatile("" : : "r"(memory.get()) : "memory");  // or the compiler leaves it all out
}

#ifdef __SANITIZE_ADDRESS__
constexpr bool has_own_malloc = true;
#else
constexpr bool has_own_malloc = false;
#endif

TEST(KeepFreedMemory, TheSecondUseOfMemoryFaultsNoPages) {
  if (has_own_malloc) GTEST_SKIP() << "AddressSanitizer replaces malloc";
  use_memory();
  const long before = page_faults();
  use_memory();
  const long without = page_faults() - before;

  keep_freed_memory();
  use_memory();
  const long kept = page_faults();
  use_memory();
  EXPECT_LT(page_faults() - kept, 10);
  EXPECT_GT(without, 30) << "malloc keeps freed memory anyway; keep_freed_memory has become useless";
}

TEST(KeepFreedMemory, HoldsForThreads) {
  if (has_own_malloc) GTEST_SKIP() << "AddressSanitizer replaces malloc";
  keep_freed_memory();
  std::thread(use_memory).join();
  const long kept = page_faults();
  std::thread(use_memory).join();
  EXPECT_LT(page_faults() - kept, 30);
}

}  // namespace
}  // namespace podaq
