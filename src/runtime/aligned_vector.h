#pragma once

#include <cstddef>
#include <new>
#include <vector>

#include "runtime/aligned_memory.h"

namespace podaq::runtime_detail {

/// Gives standard containers the memory of allocate_aligned.
template <typename Element>
struct AlignedAllocator {
  using value_type = Element;

  AlignedAllocator() = default;
  template <typename Other>
  AlignedAllocator(const AlignedAllocator<Other>&) {}

  Element* allocate(std::size_t count) {
    if (count > static_cast<std::size_t>(-1) / 2 / sizeof(Element)) throw std::bad_alloc();
    void* memory = allocate_aligned(count * sizeof(Element));
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<Element*>(memory);
  }
  void deallocate(Element* elements, std::size_t count) { free_aligned(elements, count * sizeof(Element)); }

  friend bool operator==(const AlignedAllocator&, const AlignedAllocator&) { return true; }
};

template <typename Element>
using AlignedVector = std::vector<Element, AlignedAllocator<Element>>;

}  // namespace podaq::runtime_detail
