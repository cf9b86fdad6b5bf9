#include "runtime/aligned_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace podaq::runtime_detail {
namespace {

constexpr std::size_t huge_page = std::size_t{1} << 21;

TEST(AlignedMemory, IsAlignedToCacheLinesAndHugePages) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{1000}, huge_page - 1, huge_page, 3 * huge_page + 5}) {
    auto* memory = static_cast<std::byte*>(allocate_aligned(bytes));
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % (bytes < huge_page ? 64 : huge_page), 0U) << bytes;
    memory[0] = memory[bytes - 1] = std::byte{1};
    free_aligned(memory, bytes);
  }
}

// Pages that were in use before cannot become huge ones.
TEST(AlignedMemory, OfManyPagesIsFresh) {
  constexpr std::size_t bytes = 2 * huge_page;
  for (int i = 0; i < 3; ++i) {
    auto* memory = static_cast<std::byte*>(allocate_aligned(bytes));
    ASSERT_NE(memory, nullptr);
    EXPECT_TRUE(std::all_of(memory, memory + bytes, [](std::byte byte) { return byte == std::byte{0}; }));
    std::fill(memory, memory + bytes, std::byte{1});
    free_aligned(memory, bytes);
  }
}

TEST(AlignedMemory, MoreThanThereIsGivesNull) {
  for (const std::size_t bytes : {std::numeric_limits<std::size_t>::max(), std::numeric_limits<std::size_t>::max() / 4})
    EXPECT_EQ(allocate_aligned(bytes), nullptr);
}

}  // namespace
}  // namespace podaq::runtime_detail
