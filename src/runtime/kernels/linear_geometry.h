#pragma once

#include "runtime/kernel.h"

namespace podaq::runtime_detail {

/// The geometry of a node that holds a Linear. A value {in} is one row of features; of {A, ..., in} each combination
/// of the leading indices is one.
[[nodiscard]] LinearGeometry linear_geometry(const NodeView& view);

/// The offset of a row's first feature, of `features` in all.
[[nodiscard]] inline std::size_t row_offset(const LinearGeometry& geometry, std::size_t row, Strides strides,
                                            std::size_t features) {
  return row / geometry.rows_per_channel * strides.channel +
         row % geometry.rows_per_channel * features * strides.position;
}

}  // namespace podaq::runtime_detail
