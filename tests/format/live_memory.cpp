#include "format/live_memory.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> live = 0;
std::atomic<std::size_t> peak = 0;

void* counted(std::size_t bytes, std::size_t alignment) {
  const std::size_t rounded = (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  const std::size_t now = live += ::malloc_usable_size(memory);
  peak = std::max<std::size_t>(peak, now);
  return memory;
}

void release(void* memory) {
  live -= ::malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

namespace podaq::test {

PeakMemory::PeakMemory() : before_(live) {
  peak = before_;
}

std::size_t PeakMemory::bytes() const {
  return peak - before_;
}

}  // namespace podaq::test

void* operator new(std::size_t bytes) {
  return counted(bytes, alignof(std::max_align_t));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  release(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  release(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  release(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  release(memory);
}
