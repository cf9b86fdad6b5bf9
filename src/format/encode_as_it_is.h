#pragma once

#include <cstddef>
#include <vector>

#include "podaq/graph/graph.h"

namespace podaq::format {

/// The bytes of a file whose sections are stored as they are. Programs that write no others need no compressor.
[[nodiscard]] std::vector<std::byte> encode_as_it_is(const Graph& graph);

}  // namespace podaq::format
