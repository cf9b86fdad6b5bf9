#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace podaq {

/// How a network's zeros fall to its layers.
enum class Distribution : std::uint8_t {
  uniform,  ///< Each layer reaches the sparsity by itself.
  global,   ///< All chosen layers together reach it: their units compete by score.
  erk,      ///< Erdős–Rényi-kernel: small layers keep a larger share (see `erk_zeros`).
};

/// A layer as its share of the zeros depends on it.
struct LayerExtent {
  std::int64_t units = 0;           ///< See Pattern.
  std::vector<std::int64_t> shape;  ///< Of its weight: [outputs, inputs of a conv group, taps...].
};

/// How many units of each layer are zero under the Erdős–Rényi-kernel distribution: layer l keeps the share
/// min(1, e * (outputs + inputs + taps of each dimension) / (outputs * inputs * taps)) of its units, with e such that
/// the counts' sum is exactly zeros_at(sparsity, all units, layers with units). Shares are rounded down, what is
/// missing goes to the largest remainders, earlier layers first; no layer loses its last unit.
/// Source: Evci et al., arXiv 1911.11134, §3 (1); layers that would exceed a share of 1 stay dense and the others are
/// rescaled.
[[nodiscard]] std::vector<std::int64_t> erk_zeros(std::span<const LayerExtent> layers, double sparsity);

}  // namespace podaq
