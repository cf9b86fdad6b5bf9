#include "podaq/training/allocator.h"

#include <malloc.h>

#include <limits>

namespace podaq {

void keep_freed_memory() {
  constexpr int most = std::numeric_limits<int>::max();
  mallopt(M_ARENA_MAX, 1);  // a thread's own arena has heaps of 64 MiB, too small for large tensors
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, most);
  mallopt(M_TOP_PAD, 64 << 20);
}

}  // namespace podaq
