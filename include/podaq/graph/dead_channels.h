#pragma once

#include "podaq/graph/graph.h"

namespace podaq {

/// Removes the channels of a fused graph with data that cannot change its outputs, float or integer: those that no
/// nonzero weight reads, and those that are constant, where what reads them can do without. A channel whose weights are
/// all zero holds a constant; so do what poolings, activations and sums make of it. A reader drops a constant that
/// stands for 0; on codes, a convolution without padding or a linear takes any other one into its bias. Channels that
/// can only go together (find_channel_groups) go if all can. Every value keeps one channel.
///
/// The outputs stay the same bit for bit on finite values. (In float an infinity or NaN times a weight of 0 would have
/// given NaN.)
[[nodiscard]] Graph remove_dead_channels(const Graph& graph);

}  // namespace podaq
