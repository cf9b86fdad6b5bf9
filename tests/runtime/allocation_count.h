#pragma once

#include <cstddef>

namespace podaq::test {

/// How often this program has called operator new, in any form.
[[nodiscard]] std::size_t allocation_count();

}  // namespace podaq::test
