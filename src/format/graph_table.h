#pragma once

#include <span>
#include <vector>

#include "format/bytes.h"
#include "format/tensor_streams.h"
#include "podaq/graph/graph.h"

// The graph section: a Graph without the numbers of its tensors, as the FlatBuffers table of podaq.fbs.
namespace podaq::format {

// FlatBuffers' own limit is 2 GiB; no network's graph comes near this one.
inline constexpr std::uint64_t most_graph_bytes = std::uint64_t{1} << 26;

// A graph whose tensors have dtypes, shapes and bits but no numbers, and how those stand in the streams.
struct GraphTable {
  Graph graph;
  std::vector<StoredTensor> tensors;
};

// The tensors that nodes use, in the order in which they first do.
[[nodiscard]] std::vector<StoredTensor> tensors_in_order(const Graph& graph);

// `graph` is verified. Throws Error(graph) naming a value or tensor that no node computes or uses.
[[nodiscard]] Bytes write_graph_table(const Graph& graph, std::span<const StoredTensor> stored);

// Checks the table's structure; what the graph means is for `verify`.
[[nodiscard]] GraphTable read_graph_table(std::span<const std::byte> table);

}  // namespace podaq::format
