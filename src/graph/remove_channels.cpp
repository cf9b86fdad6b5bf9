#include <algorithm>
#include <cstring>
#include <utility>

#include "graph/node_access.h"
#include "podaq/graph/channel_groups.h"

namespace podaq {

namespace {

using namespace graph_detail;

std::vector<std::int64_t> kept_indices(const std::vector<std::size_t>& groups, const std::vector<bool>& removed) {
  std::vector<std::int64_t> kept;
  for (std::size_t i = 0; i < groups.size(); ++i)
    if (!removed[groups[i]]) kept.push_back(static_cast<std::int64_t>(i));
  return kept;
}

void check_removal(const Graph& graph, const ChannelGroups& groups, const std::vector<bool>& removed) {
  for (std::size_t value = 0; value < graph.values.size(); ++value) {
    const std::vector<std::size_t>& channels = groups.of_value[value];
    for (std::size_t i = 0; i < channels.size(); ++i)
      if (removed[channels[i]] && groups.is_fixed[channels[i]])
        throw Error(ErrorCode::graph, concat("remove channels: channel ", i, " of '", graph.values[value].name,
                                             "' must stay: an input, an output or a softmax needs it"));
    if (kept_indices(channels, removed).empty())
      throw Error(ErrorCode::graph, concat("remove channels: '", graph.values[value].name, "' would lose all ",
                                           channels.size(), " channels; leave it one"));
  }
}

Tensor cut_dimension(const Tensor& tensor, const TensorCut& cut) {
  std::size_t outer = 1;
  for (std::size_t i = 0; i < cut.dimension; ++i) outer *= static_cast<std::size_t>(tensor.shape[i]);
  std::size_t inner_bytes = size_of(tensor.dtype);
  for (std::size_t i = cut.dimension + 1; i < tensor.shape.size(); ++i)
    inner_bytes *= static_cast<std::size_t>(tensor.shape[i]);
  const auto size = static_cast<std::size_t>(tensor.shape[cut.dimension]);

  Tensor result{
      .dtype = tensor.dtype, .shape = tensor.shape, .bytes = {}, .scales = tensor.scales, .bits = tensor.bits};
  result.shape[cut.dimension] = static_cast<std::int64_t>(cut.kept.size());
  if (cut.dimension == 0 && tensor.scales.size() > 1) {
    result.scales.clear();
    for (const std::int64_t index : cut.kept) result.scales.push_back(tensor.scales[static_cast<std::size_t>(index)]);
  }
  if (tensor.bytes.empty()) return result;
  result.bytes.reserve(outer * cut.kept.size() * inner_bytes);
  for (std::size_t block = 0; block < outer; ++block)
    for (const std::int64_t index : cut.kept) {
      const auto first = tensor.bytes.begin() +
                         static_cast<std::ptrdiff_t>((block * size + static_cast<std::size_t>(index)) * inner_bytes);
      result.bytes.insert(result.bytes.end(), first, first + static_cast<std::ptrdiff_t>(inner_bytes));
    }
  return result;
}

void cut_tensors(const ChannelGroups& groups, const std::vector<bool>& removed, const Graph& graph,
                 SmallerGraph& smaller) {
  for (const Node& node : graph.nodes)
    for (const ChannelAxis& axis : channel_axes(graph, node, groups)) {
      std::vector<std::int64_t> kept = kept_indices(axis.groups, removed);
      if (kept.size() == axis.groups.size()) continue;
      std::vector<TensorCut>& cuts = smaller.cuts[axis.tensor];
      const bool is_known = std::any_of(cuts.begin(), cuts.end(),  // the tensor of another node too
                                        [&](const TensorCut& cut) { return cut.dimension == axis.dimension; });
      if (!is_known) cuts.push_back({.dimension = axis.dimension, .kept = std::move(kept)});
    }
  for (const auto& [name, cuts] : smaller.cuts) smaller.graph.tensors[name] = cut_tensor(tensor_at(graph, name), cuts);
}

void shrink_op(const Graph& smaller, Node& node) {
  if (auto* reshape = std::get_if<Reshape>(&node.op)) reshape->shape = smaller.values[node.output].shape;
  auto* conv = std::get_if<Conv>(&node.op);
  if (conv == nullptr || conv->groups == 1) return;
  const bool has_one_input_each = required_tensor(smaller, node, 0).shape[1] == 1;
  const std::int64_t inputs = smaller.values[node.inputs[0]].shape[0];
  if (has_one_input_each && conv->groups != inputs) conv->groups = inputs;
}

}  // namespace

Tensor cut_tensor(const Tensor& tensor, const std::vector<TensorCut>& cuts) {
  Tensor result = tensor;
  for (const TensorCut& cut : cuts) result = cut_dimension(result, cut);
  return result;
}

SmallerGraph remove_channels(const Graph& graph, const ChannelGroups& groups, const std::vector<bool>& removed) {
  check_removal(graph, groups, removed);
  SmallerGraph smaller{.graph = graph, .cuts = {}};
  for (std::size_t value = 0; value < graph.values.size(); ++value)
    if (Shape& shape = smaller.graph.values[value].shape; !shape.empty())
      shape[0] = static_cast<std::int64_t>(kept_indices(groups.of_value[value], removed).size());
  cut_tensors(groups, removed, graph, smaller);
  for (Node& node : smaller.graph.nodes) shrink_op(smaller.graph, node);
  return smaller;
}

}  // namespace podaq
