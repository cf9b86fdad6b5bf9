#include "fuzz/peak_memory.h"

#include <sanitizer/allocator_interface.h>

#include <algorithm>
#include <cstdlib>

namespace podaq::fuzz {
namespace {

// Constant-initialized: the hooks are called before and after main.
std::size_t live = 0;
std::size_t peak = 0;

void count_allocation(const volatile void* /*memory*/, std::size_t bytes) {
  live += bytes;
  peak = std::max(peak, live);
}

void count_release(const volatile void* memory) {
  if (memory != nullptr) live -= __sanitizer_get_allocated_size(memory);
}

bool install() {
  return __sanitizer_install_malloc_and_free_hooks(count_allocation, count_release) > 0;
}

}  // namespace

PeakMemory::PeakMemory() {
  static const bool counts = install();
  if (!counts) std::abort();
  before_ = live;
  peak = live;
}

std::size_t PeakMemory::bytes() const {
  return peak - before_;
}

}  // namespace podaq::fuzz
