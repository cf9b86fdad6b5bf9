#pragma once

#include <cstddef>

namespace podaq::runtime_detail {

/// Where one window of a pooling lies along one dimension of the input, clipped to it.
struct WindowSpan {
  std::size_t first = 0;  ///< Its first input index.
  std::size_t count = 0;  ///< How many of its taps lie inside the input.
};

}  // namespace podaq::runtime_detail
