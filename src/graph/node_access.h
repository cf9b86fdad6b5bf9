#pragma once

#include <string>
#include <string_view>

#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "podaq/graph/graph.h"

namespace podaq::graph_detail {

/// Joins a lambda for each alternative into the visitor of a variant.
template <typename... Lambdas>
struct Overloaded : Lambdas... {
  using Lambdas::operator()...;
};

/// Throws Error(graph) that names `node` and its op.
[[noreturn]] void fail(const Node& node, std::string_view problem);

/// "[2, 1024]"
[[nodiscard]] std::string text_of(const Shape& shape);

/// The node's input of that index; throws where the node has none or its id is out of range.
[[nodiscard]] const Value& input_of(const Graph& graph, const Node& node, std::size_t index);

/// The node's tensor of that index; throws where the node or the graph has none.
[[nodiscard]] const Tensor& required_tensor(const Graph& graph, const Node& node, std::size_t index);

/// The node's tensor of that index, or nullptr where its name is empty.
[[nodiscard]] const Tensor* optional_tensor(const Graph& graph, const Node& node, std::size_t index);

/// The window of one spatial dimension of a convolution or pooling. Attributes are in range once `window_output_size`
/// has accepted them.
struct Window {
  std::int64_t input = 1, kernel = 1, stride = 1, pad_begin = 0, pad_end = 0, dilation = 1;

  /// The number of elements that the window spans, holes included.
  [[nodiscard]] std::int64_t span() const { return (kernel - 1) * dilation + 1; }
};

/// How many window positions fit; throws naming the attribute that is out of range.
[[nodiscard]] std::int64_t window_output_size(const Node& node, const Window& window);

}  // namespace podaq::graph_detail
