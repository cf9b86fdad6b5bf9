#pragma once

#include "podaq/graph/graph.h"

namespace podaq {

/// The shape that `node`'s op gives its output, from the shapes of its inputs and tensors.
/// Throws Error(graph) naming the node where they do not fit.
[[nodiscard]] Shape infer_shape(const Graph& graph, const Node& node);

/// What `verify` may assume.
struct VerifyOptions {
  bool tensors_have_data = true;  ///< False for networks in training, whose parameters live in the module.
};

/// Checks every rule of a graph and throws Error(graph) naming the first node, value or tensor that breaks one:
/// ids in range, each value produced once and before it is read, names unique and valid UTF-8, attribute ranges,
/// dtypes, shapes as inferred, rank <= 8, sizes free of overflow, scales and zero points valid, codes within their
/// bits, accumulators that cannot overflow (sum|w| * 255 + |bias| < 2^31 per channel).
void verify(const Graph& graph, VerifyOptions options = {});

}  // namespace podaq
