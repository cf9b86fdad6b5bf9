#pragma once

#include <string>
#include <vector>

#include "capture/module_state.h"
#include "capture/symbols.h"
#include "podaq/training/graph_module.h"

namespace podaq::capture_detail {

/// Throws Error(capture) naming the first node in which two mappings of one module differ, dropouts left out: the
/// module then computes something else for other values, another batch size or in another mode.
void check_same_structure(const Graph& first, const Graph& second, const std::string& what_differs);

/// Throws Error(capture), with the largest difference, unless `captured` gives the outputs and buffers of `trace` for
/// its inputs. Dropouts of both sides draw from the same random state.
/// @param largest_difference  relative to the largest magnitude of the module's output.
void check_outputs(GraphModule& captured, const Trace& trace, const std::vector<RegisteredTensor>& tensors,
                   const ModuleState& state, const RandomState& random, double largest_difference);

/// The seed of the default generator before a traced run and its check.
inline constexpr std::uint64_t check_seed = 0x706f646171;

}  // namespace podaq::capture_detail
