#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "podaq/graph/graph.h"

namespace podaq::runtime_detail {

/// The nodes, by index, between which a value is nobody else's.
struct Neighbours {
  std::vector<std::optional<std::size_t>>
      sole_readers;  ///< By value: the node whose only input it is, read by no other.
  std::vector<std::optional<std::size_t>>
      own_producers;  ///< By value that one node reads: the node, of one input, that computes it.
};

[[nodiscard]] Neighbours neighbours_of(const Graph& graph);

}  // namespace podaq::runtime_detail
