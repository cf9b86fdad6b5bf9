#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "format/bytes.h"
#include "format/container.h"
#include "format/models.h"
#include "podaq/graph/graph.h"

// The numbers of a graph's tensors as a few long streams, one per section kind: small tensors would each compress
// badly alone.
namespace podaq::format {

// How one tensor stands in the streams. Tensors stand in the order in which nodes first use them.
struct StoredTensor {
  std::string name;
  bool masked = false;  // Elements whose bits are all zero are left out; the masks say which.
  std::size_t scale_count = 0;
};

// The bytes of each section but the graph's. Absent: no bytes.
using Streams = std::map<SectionKind, Bytes>;

// True where leaving out the zeros saves more, before any coding, than the mask takes.
[[nodiscard]] bool is_worth_masking(const Tensor& tensor);

[[nodiscard]] Streams split_tensors(const Graph& graph, std::span<const StoredTensor> stored);

// How many bytes the masks have.
[[nodiscard]] std::uint64_t mask_bytes(const Graph& graph, std::span<const StoredTensor> stored);

// How many bytes each other stream has. `masks` has the size above; bits behind the last element must be 0.
[[nodiscard]] std::map<SectionKind, std::uint64_t> stream_bytes(const Graph& graph,
                                                                std::span<const StoredTensor> stored,
                                                                std::span<const std::byte> masks);

// What the adaptive coder's models know of a stream.
[[nodiscard]] StreamShape stream_shape(SectionKind kind, const Graph& graph, std::span<const StoredTensor> stored,
                                       std::span<const std::byte> masks);

// Puts the numbers into the tensors, which have their dtypes, shapes and bits already. The streams have the sizes that
// the functions above give.
void fill_tensors(Graph& graph, std::span<const StoredTensor> stored, const Streams& streams);

}  // namespace podaq::format
