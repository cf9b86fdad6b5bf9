#pragma once

#include <string_view>

#include "podaq/graph/graph.h"

// The parts of `verify`, each throwing Error(graph) that names the offender.
namespace podaq::graph_detail {

/// True for well-formed UTF-8 (no overlong forms, surrogates or code points above U+10FFFF).
[[nodiscard]] bool is_utf8(std::string_view text);

/// A tensor by itself: shape, size, scales, codes within their bits.
void check_tensor(const std::string& name, const Tensor& tensor, bool has_data);

/// Which of a node's values and tensors may be codes, and which must: the rules of integer graphs.
void check_codes(const Graph& graph, const Node& node);

/// A conv's or linear's accumulators stay within 32 bits: sum|w| * 255 + |bias| < 2^31 per output channel.
void check_accumulators(const Graph& graph, const Node& node);

}  // namespace podaq::graph_detail
