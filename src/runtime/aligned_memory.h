#pragma once

#include <cstddef>

namespace podaq::runtime_detail {

/// Uninitialised memory at a 64-byte boundary, so that a vector register's worth of elements never straddles a cache
/// line. Blocks of 2 MiB and more lie on huge pages where the system has them: streaming weights through pages of 4 KiB
/// takes twice as long. Null where there is not enough.
[[nodiscard]] void* allocate_aligned(std::size_t bytes) noexcept;

/// Frees what allocate_aligned gave for the same number of bytes.
void free_aligned(void* memory, std::size_t bytes) noexcept;

}  // namespace podaq::runtime_detail
