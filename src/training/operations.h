#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "podaq/graph/graph.h"

// The operations of a graph as LibTorch operations under autograd.
//
// A value of per-sample shape {C, L} is held in one of two forms: plain [N, C, L], or lifted [N, C, 1, L] in
// channels-last memory, in which LibTorch's 2-D convolutions, batch norms and poolings are fastest. Operations that
// gain from the lifted form make it and leave it; all others work on both. A value's form shows in its rank.
namespace podaq::training_detail {

/// True where `value` is the lifted form of a value of `rank` per-sample dimensions.
[[nodiscard]] inline bool is_lifted(const at::Tensor& value, std::size_t rank) {
  return value.dim() == static_cast<std::int64_t>(rank) + 2;
}

/// The form [N, C, H, W] in channels-last memory of [N, C, L] or [N, C, H, W].
[[nodiscard]] at::Tensor to_lifted(const at::Tensor& value);

/// The plain form of a value of `rank` per-sample dimensions.
[[nodiscard]] at::Tensor to_plain(const at::Tensor& value, std::size_t rank);

/// A convolution with a weight {K, C/groups, taps...} of one or two spatial dimensions; `bias` may be undefined.
[[nodiscard]] at::Tensor convolve(const Conv& conv, const at::Tensor& input, const at::Tensor& weight,
                                  const at::Tensor& bias);

/// x W^T + b over the last dimension; `bias` may be undefined.
[[nodiscard]] at::Tensor multiply(const at::Tensor& input, std::size_t rank, const at::Tensor& weight,
                                  const at::Tensor& bias);

/// min(max(x, minimum), maximum). With `in_place` the result takes over the memory of `input`.
[[nodiscard]] at::Tensor clamp(const Clamp& bounds, const at::Tensor& input, bool in_place);

/// Zeroes elements as the user's own module would: with the same random state the same elements of [N, ...] in
/// row-major order are dropped, whatever form the value is held in.
[[nodiscard]] at::Tensor drop(const Dropout& dropout, const at::Tensor& input, const Shape& shape);

/// Every operation that has no tensors: the `inputs` are the node's values, in its order.
/// @param owned_input  the input whose memory may be overwritten, if any.
/// @param generator  what dropout draws from; empty: LibTorch's default.
[[nodiscard]] at::Tensor apply(const Graph& graph, const Node& node, const std::vector<at::Tensor>& inputs,
                               bool training, std::optional<std::size_t> owned_input,
                               const std::optional<at::Generator>& generator);

}  // namespace podaq::training_detail
