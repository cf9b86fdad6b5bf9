#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <new>
#include <span>

namespace podaq::test {

/// Memory that ends, or starts, at a page that may not be touched.
class GuardedBuffer {
 public:
  enum class Guard { before, after };

  GuardedBuffer(std::size_t bytes, Guard guard) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t usable = (bytes + page - 1) / page * page;
    mapped_bytes_ = usable + 2 * page;
    mapped_ = static_cast<std::byte*>(
        mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (mapped_ == MAP_FAILED) throw std::bad_alloc();
    mprotect(mapped_, page, PROT_NONE);
    mprotect(mapped_ + page + usable, page, PROT_NONE);
    data_ = guard == Guard::before ? mapped_ + page : mapped_ + page + usable - bytes;
    bytes_ = bytes;
  }
  ~GuardedBuffer() { munmap(mapped_, mapped_bytes_); }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() const { return {data_, bytes_}; }
  [[nodiscard]] std::span<float> floats() const { return {reinterpret_cast<float*>(data_), bytes_ / sizeof(float)}; }

 private:
  std::byte* mapped_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace podaq::test
