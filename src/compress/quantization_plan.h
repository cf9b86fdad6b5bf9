#pragma once

#include "podaq/compress/recipe.h"
#include "podaq/quantize/network_quantizer.h"
#include "podaq/training/graph_module.h"

namespace podaq::compress_detail {

/// Where a recipe's quantizers stand in a network, and how they work.
struct QuantizationPlan {
  Placement placement;
  NetworkQuantizerOptions options;
};

/// Reads the recipe's [quantize] against the network. Throws Error(recipe) for a glob that matches nothing and for a
/// value that cannot stay float or be quantized, naming it.
[[nodiscard]] QuantizationPlan plan_quantization(const GraphModule& model, const Recipe& recipe);

/// The quantizer that the recipe asks for. Throws as plan_quantization does.
[[nodiscard]] NetworkQuantizer make_quantizer(const GraphModule& model, const Recipe& recipe);

}  // namespace podaq::compress_detail
