#pragma once

#include <cstddef>
#include <span>

namespace podaq::fuzz {

/// Changes the file in the first `size` of `bytes` at random and makes its checksums right again, without which a
/// reader would look no further: the bytes of one section; its coder or declared size; the numbers of a tensor; or
/// anything at all. After most changes of the graph, sections of numbers get the sizes that it needs. Bytes that are no
/// file are changed as they are.
/// @param bytes  as many as the result may have.
/// @return       the size of the result, at most bytes.size().
[[nodiscard]] std::size_t mutate_file(std::span<std::byte> bytes, std::size_t size, unsigned seed);

}  // namespace podaq::fuzz
