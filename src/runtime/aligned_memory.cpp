#include "runtime/aligned_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <limits>
#include <new>

namespace podaq::runtime_detail {

namespace {

constexpr std::align_val_t cache_line{64};
constexpr std::size_t huge_page = std::size_t{1} << 21;

std::size_t mapped_bytes(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

// A mapping of its own: memory that the heap hands out again lies on small pages already, and advice comes too late for
// those.
void* map_aligned(std::size_t bytes) {
  if (bytes > std::numeric_limits<std::size_t>::max() / 2) return nullptr;
  const std::size_t kept = mapped_bytes(bytes);
  void* mapped = mmap(nullptr, kept + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* const first = static_cast<std::byte*>(mapped);
  const std::size_t lead = (huge_page - reinterpret_cast<std::uintptr_t>(first) % huge_page) % huge_page;
  if (lead > 0) munmap(first, lead);
  munmap(first + lead + kept, huge_page - lead);
  // The rest behind the last whole huge page stays on small ones, so that nothing is held that is not needed.
  madvise(first + lead, bytes / huge_page * huge_page, MADV_HUGEPAGE);
  return first + lead;
}

}  // namespace

void* allocate_aligned(std::size_t bytes) noexcept {
  return bytes < huge_page ? ::operator new(bytes, cache_line, std::nothrow) : map_aligned(bytes);
}

void free_aligned(void* memory, std::size_t bytes) noexcept {
  if (bytes < huge_page)
    ::operator delete(memory, cache_line);
  else if (memory != nullptr)
    munmap(memory, mapped_bytes(bytes));
}

}  // namespace podaq::runtime_detail
