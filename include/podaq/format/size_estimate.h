#pragma once

#include "podaq/graph/graph.h"
#include "podaq/graph/tensor.h"

namespace podaq {

/// About how many bytes a tensor takes in a file, without coding it: the entropy of its mask where zeros are left out
/// (of all its bits, of each row's or of each column's, whichever is least), that of the other codes (of each byte of
/// numbers of 4 bytes), and that of its scales, each with what an adaptive coder needs to learn its frequencies.
/// The order of numbers is not looked at, so regular tensors take less than estimated.
[[nodiscard]] double estimate_stored_bytes(const Tensor& tensor);

/// The same for all tensors of a graph; its structure (names, shapes, qparams) is not counted.
[[nodiscard]] double estimate_stored_bytes(const Graph& graph);

}  // namespace podaq
