#pragma once

#include "podaq/graph/graph.h"

namespace podaq::amc {

/// What a network costs by the rules of the ITU challenge ITU-ML5G-PS-007 (Lightning-Fast Modulation Classification):
/// summed over conv and linear layers, with the share of nonzero weights as a factor. Bits are those of the weights'
/// codes and of the codes that the layer reads, 32 where they are floats. Biases, scales, batch norms, pooling and
/// elementwise steps are free.
struct ItuCost {
  double bit_operations = 0;  ///< Multiply-accumulates * weight bits * activation bits.
  double weight_bits = 0;     ///< Weights * weight bits.
};

/// The cost of one sample through `graph`, which must hold its data, as a file's does.
[[nodiscard]] ItuCost itu_cost(const Graph& graph);

/// 0.5 * bit_operations / 807 699 904 + 0.5 * weight_bits / 1 244 936: the challenge's baseline network has 1.
[[nodiscard]] double itu_score(const ItuCost& cost);

}  // namespace podaq::amc
