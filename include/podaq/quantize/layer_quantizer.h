#pragma once

#include "podaq/numerics/qparams.h"
#include "podaq/training/graph_module.h"

namespace podaq {

/// A conv's or linear's parameters as its codes will hold them, differentiable (straight-through): the weight rounded
/// per output channel at scales recomputed from its present values, and, where the bias is final, the bias rounded to
/// int32 codes. An undefined bias stays undefined. Zeros stay exactly 0.
/// @param bits   weight bits, 2 to 8.
/// @param input  the parameters of the layer's input.
[[nodiscard]] LayerParameters fake_quantize_layer(const LayerParameters& parameters, int bits, const QParams& input);

}  // namespace podaq
