#include "runtime/aligned_memory.h"

#include <sys/mman.h>

#include <new>

namespace podaq::runtime_detail {

namespace {

constexpr std::size_t cache_line = 64;
constexpr std::size_t huge_page = std::size_t{1} << 21;

std::align_val_t alignment_of(std::size_t bytes) {
  return std::align_val_t{bytes >= huge_page ? huge_page : cache_line};
}

}  // namespace

void* allocate_aligned(std::size_t bytes) noexcept {
  void* memory = ::operator new(bytes, alignment_of(bytes), std::nothrow);
  // The rest behind the last whole huge page stays on small ones, so that nothing is held that is not needed.
  if (memory != nullptr && bytes >= huge_page) madvise(memory, bytes / huge_page * huge_page, MADV_HUGEPAGE);
  return memory;
}

void free_aligned(void* memory, std::size_t bytes) noexcept {
  ::operator delete(memory, alignment_of(bytes));
}

}  // namespace podaq::runtime_detail
