#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "podaq/graph/graph.h"

namespace podaq {

/// Which channels of a network can only stay or go together. The channels of a value are the indices of its first
/// dimension; those of a flattened value are its features.
///
/// A convolution or linear makes channels of its own. Adds, products, activations, poolings, batch norms and fused
/// residuals tie each channel to the one of the same index; concatenations, flattening and other reshapes to those that
/// hold the same elements; a depthwise convolution ties an output channel to its input channel; a grouped one ties the
/// channels of equal place in each group, so that groups stay equally large. Tied weights tie the channels of all
/// layers that use them.
struct ChannelGroups {
  std::vector<std::vector<std::size_t>> of_value;  ///< [value][channel]: index of its group, 0 to size() - 1.
  /// [group]: whether it must stay: the network's inputs and outputs, what a softmax reads, the positions of a linear
  /// that is applied to several.
  std::vector<bool> is_fixed;

  /// How many groups there are.
  [[nodiscard]] std::size_t size() const { return is_fixed.size(); }
};

/// The groups of a graph that verifies, with or without data.
[[nodiscard]] ChannelGroups find_channel_groups(const Graph& graph);

/// One dimension of a tensor that is indexed by channels.
struct ChannelAxis {
  std::string tensor;               ///< Name.
  std::size_t dimension = 0;        ///< 0: output channels, or those of a batch norm; 1: input channels.
  std::vector<std::size_t> groups;  ///< [index along the dimension]: its group.
};

/// The dimensions of a node's tensors that are indexed by channels.
[[nodiscard]] std::vector<ChannelAxis> channel_axes(const Graph& graph, const Node& node, const ChannelGroups& groups);

/// What is left of one dimension of a tensor.
struct TensorCut {
  std::size_t dimension = 0;
  std::vector<std::int64_t> kept;  ///< Indices along the dimension, rising.
};

/// A graph without some of its channels, and how its tensors came about, so that whoever holds the tensors or anything
/// of their shape (masks, momentum) can cut it likewise.
struct SmallerGraph {
  Graph graph;
  std::map<std::string, std::vector<TensorCut>> cuts;  ///< By tensor; those that stay whole are not named.
};

/// Removes groups of channels: weights, biases, scales and batch-norm tensors shrink, shapes follow. What other
/// channels compute of the removed ones is lost: a pruning decides that it may be, `remove_dead_channels` that it is
/// nothing. Throws Error(graph) naming a value that would lose its last channel, or a group that is fixed.
/// @param removed  one per group.
[[nodiscard]] SmallerGraph remove_channels(const Graph& graph, const ChannelGroups& groups,
                                           const std::vector<bool>& removed);

/// The elements of `tensor` that the cuts leave. Data may be absent.
[[nodiscard]] Tensor cut_tensor(const Tensor& tensor, const std::vector<TensorCut>& cuts);

}  // namespace podaq
