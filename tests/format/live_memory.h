#pragma once

#include <cstddef>

namespace podaq::test {

/// The most bytes that operator new has given out and not got back at once since construction, beyond those of then.
/// Counts all threads of this program. One at a time.
class PeakMemory {
 public:
  PeakMemory();
  [[nodiscard]] std::size_t bytes() const;

 private:
  std::size_t before_;
};

}  // namespace podaq::test
