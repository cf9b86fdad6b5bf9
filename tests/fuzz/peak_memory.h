#pragma once

#include <cstddef>

namespace podaq::fuzz {

/// The most bytes that this program has held on the heap at once since construction, beyond those of then, as the
/// sanitizer's allocator counts them: zstd's too. One at a time.
class PeakMemory {
 public:
  PeakMemory();
  [[nodiscard]] std::size_t bytes() const;

 private:
  std::size_t before_;
};

}  // namespace podaq::fuzz
