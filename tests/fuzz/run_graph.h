#pragma once

#include "podaq/graph/graph.h"

namespace podaq::fuzz {

/// Whether a run of one sample takes little enough time and memory to be worth its place among the fuzzer's.
[[nodiscard]] bool is_small(const Graph& graph);

/// Packs a verified graph for the scalar reference and for the widest instruction set of this CPU, and runs one sample
/// through both. Ends the program where they differ.
void run_everywhere(const Graph& graph);

}  // namespace podaq::fuzz
