#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "podaq/graph/graph.h"

namespace podaq {

/// A run of nodes that conversion fuses into one: conv or linear, then batch norm, then add, then clamp, each optional
/// but the first; or an Add and its clamp; or any other single node. Fake quantization and conversion both read this
/// list, so they agree on which intermediate values exist.
struct Step {
  std::size_t node = 0;                   ///< Index of the first node.
  std::optional<std::size_t> batch_norm;  ///< Index of the folded batch norm.
  std::optional<std::size_t> add;         ///< Index of the fused add; its other operand is `residual`.
  std::optional<ValueId> residual;        ///< What the fused add adds.
  std::optional<std::size_t> clamp;       ///< Index of the folded clamp.
  std::vector<std::size_t> dropouts;      ///< Dropouts inside the step, identities once converted.
  ValueId output = 0;                     ///< The value that the whole step computes.
};

/// Splits a float graph into steps, in execution order (a step stands where its last node stands).
/// A node joins a step only if nobody else reads the value between, and that value is no output of the graph. An add
/// fuses with the operand whose step comes last, when that step is a conv or linear without a clamp. A batch norm joins
/// a conv, or a linear of a single row, that directly precedes it. Dropouts between nodes of a step belong to it; one
/// after its last node is a step of its own.
[[nodiscard]] std::vector<Step> find_steps(const Graph& graph);

}  // namespace podaq
