#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/kernel.h"

namespace podaq::runtime_detail {

/// The bytes of all constants of a graph.
[[nodiscard]] std::size_t weight_bytes(const Graph& graph);

/// Whether no weight is infinite or NaN, so that padding may be multiplied as zeros instead of skipped.
[[nodiscard]] bool are_finite(std::span<const float> weights);

/// The weight of a conv or linear as floats, in the graph's order; s8 weights are multiplied by their scales.
[[nodiscard]] std::vector<float> float_weights(const NodeView& view);

/// The bias of a float conv or linear, likewise; zeros where it has none.
[[nodiscard]] std::vector<float> float_bias(const NodeView& view, std::size_t outputs);

/// The weight codes of an integer conv or linear, in the graph's order.
[[nodiscard]] std::vector<std::int8_t> integer_weights(const NodeView& view);

/// The bias codes of an integer conv or linear; zeros where it has none.
[[nodiscard]] std::vector<std::int32_t> integer_bias(const NodeView& view, std::size_t outputs);

/// The same with -zero_point * sum of weights folded in. The fold may leave 32 bits; an accumulator wraps with it and
/// comes back, since the true sum fits.
/// @param codes  Weight codes, {outputs, the rest}.
[[nodiscard]] std::vector<std::int32_t> folded_bias(const NodeView& view, std::span<const std::int8_t> codes,
                                                    std::size_t outputs);

/// The bounds of a clamp that may be absent.
[[nodiscard]] FloatBounds float_bounds(const std::optional<Clamp>& clamp);

/// What an integer conv or linear does with its accumulators, from the parameters of its input, weight, added input
/// and output.
[[nodiscard]] IntegerEpilogue integer_epilogue(const NodeView& view, bool adds_input,
                                               const std::optional<Clamp>& clamp);

}  // namespace podaq::runtime_detail
