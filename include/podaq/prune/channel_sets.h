#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "podaq/graph/channel_groups.h"
#include "podaq/graph/graph.h"
#include "podaq/prune/masks.h"

namespace podaq {

/// Channels (groups of tied ones, see ChannelGroups) that lie in the same values. While each set keeps one, no value
/// loses its last.
struct ChannelSet {
  std::vector<std::size_t> groups;  ///< Rising.
  std::vector<std::string> layers;  ///< The names of all layers that compute them, in execution order.
};

/// What of a network the pattern "channels" can prune: the channels that are 0 in every value that a weight reads, once
/// the weights and biases that compute them and those of the batch norms behind are 0. That leaves out fixed channels,
/// and those that a sigmoid, an offset or a clamp without 0 moves away from 0 again before a weight reads them.
struct PrunableChannels {
  ChannelGroups groups;          ///< Of the network.
  std::vector<ChannelSet> sets;  ///< By their first channel.
  /// The tensors whose elements must be 0 for their channel to be 0, along dimension 0: weights and biases of all conv
  /// and linear layers, weights and biases of batch norms, running means of batch norms without weight.
  std::vector<ChannelAxis> silenced;
};

/// What the pattern "channels" can prune of a graph that verifies, with or without data.
[[nodiscard]] PrunableChannels find_prunable_channels(const Graph& graph);

/// Which groups the masks prune as a whole, of those that some set holds: every weight is masked that computes one of
/// its channels. One per group.
[[nodiscard]] std::vector<bool> pruned_channels(const Graph& graph, const PrunableChannels& channels,
                                                const Masks& masks);

}  // namespace podaq
