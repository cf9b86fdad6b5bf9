#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "podaq/format/file.h"

namespace podaq::test {

/// What `decode` may hold beyond the declared size and the file's size.
inline constexpr std::uint64_t fixed_decoding_bytes = std::uint64_t{4} << 20;

/// The declared size of a file, worked out from what podaq/format/file.h says of it: `graph` is what the file holds, or
/// has no tensors where it was refused. At most 2^64 - 1, as which the sum counts where it is more.
[[nodiscard]] inline std::uint64_t declared_size(std::span<const std::byte> file, const Graph& graph) {
  __extension__ using Sum = unsigned __int128;
  Sum total = 0;
  for (const FileReport::Section& section : inspect(file).sections) {
    const bool is_modelled_mask = section.name == "masks" && section.coder == "adaptive";
    const unsigned times = section.name == "graph"          ? 64
                           : is_modelled_mask               ? 81
                           : section.name == "packed codes" ? 3
                                                            : 1;
    total += Sum{section.decoded_bytes} * times;
  }
  for (const auto& [name, tensor] : graph.tensors) total += tensor.bytes.size() + sizeof(float) * tensor.scales.size();
  return static_cast<std::uint64_t>(std::min<Sum>(total, ~std::uint64_t{0}));
}

}  // namespace podaq::test
