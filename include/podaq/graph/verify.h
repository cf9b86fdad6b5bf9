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
/// - Structure: ids in range, each value produced once and before it is read, at least one output, no output that is
///   also an input, names present, unique by kind and valid UTF-8.
/// - Sizes: rank <= 8, 1 to 2^31 - 1 elements per sample, shapes as `infer_shape` says, attributes up to 2^31.
/// - Tensors: as many as the op documents, of the right dtype and byte count; weight codes within their bits, one valid
///   scale or one per output channel.
/// - Codes: inputs and outputs of the graph are float. An op works on codes or on float, all its values alike; batch
///   norm, softmax and dropout on float only; a conv or linear that reads codes may give float. One that reads float
///   may have weights and a bias of s8 codes. Zero points lie within
///   the codes, scales and the product of input and weight scale are valid, multipliers finite. A reshape keeps its
///   input's parameters; every other op may change them.
/// - Accumulators that cannot overflow: sum|w| * 255 + |bias| < 2^31 per channel; means of at most 2^31 / 255 codes.
void verify(const Graph& graph, VerifyOptions options = {});

}  // namespace podaq
