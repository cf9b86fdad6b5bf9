#pragma once

#include "runtime/kernel.h"

namespace podaq::runtime_detail {

/// Packs a node that holds Quantize.
[[nodiscard]] Packed prepare_quantize(const NodeView& view);

/// Packs a node that holds Dequantize.
[[nodiscard]] Packed prepare_dequantize(const NodeView& view);

}  // namespace podaq::runtime_detail
