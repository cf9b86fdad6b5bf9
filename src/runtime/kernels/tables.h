#pragma once

#include "podaq/graph/graph.h"
#include "runtime/kernels/packed.h"

namespace podaq::runtime_detail {

/// The table from codes under `input` to codes under `output`, limited to `clamp`: equal parameters keep the code,
/// others change it by one multiply and one rounding.
[[nodiscard]] CodeTable rescaling_table(const QParams& input, const QParams& output, const Clamp& clamp = {});

/// The table of an elementwise op (Clamp, Affine, Activation) on codes.
[[nodiscard]] CodeTable table_of(const Op& op, const QParams& input, const QParams& output);

/// An elementwise op (Clamp, Affine, Activation) on one float.
[[nodiscard]] float apply(const Clamp& clamp, float x);
[[nodiscard]] float apply(const Affine& affine, float x);
[[nodiscard]] float apply(const Activation& activation, float x);

}  // namespace podaq::runtime_detail
