#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace podaq::runtime_detail {

/// Allocates at 64-byte boundaries, so that a vector register's worth of elements never straddles a cache line.
template <typename Element>
struct CacheLineAllocator {
  using value_type = Element;
  static constexpr std::align_val_t alignment{64};

  CacheLineAllocator() = default;
  template <typename Other>
  CacheLineAllocator(const CacheLineAllocator<Other>&) {}

  Element* allocate(std::size_t count) {
    if (count > static_cast<std::size_t>(-1) / 2 / sizeof(Element)) throw std::bad_alloc();
    return static_cast<Element*>(::operator new(count * sizeof(Element), alignment));
  }
  void deallocate(Element* elements, std::size_t) { ::operator delete(elements, alignment); }

  friend bool operator==(const CacheLineAllocator&, const CacheLineAllocator&) { return true; }
};

template <typename Element>
using AlignedVector = std::vector<Element, CacheLineAllocator<Element>>;

}  // namespace podaq::runtime_detail
