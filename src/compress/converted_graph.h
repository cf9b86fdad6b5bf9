#pragma once

#include "podaq/compress/compressor.h"
#include "podaq/compress/recipe.h"
#include "podaq/graph/graph.h"
#include "podaq/quantize/network_quantizer.h"
#include "podaq/training/graph_module.h"

namespace podaq::compress_detail {

/// The network on codes, as it stands. Throws Error(invalid_argument) naming the layer or value where a value was never
/// observed, numbers are not finite or an accumulator could overflow.
[[nodiscard]] Graph integer_graph(const GraphModule& model, const NetworkQuantizer& quantizer);

/// The graph that a file of the network holds: on codes, or float where there is no quantizer. Throws as integer_graph
/// does.
/// @param recipe     whose hash the metadata name.
/// @param quantizer  may be null.
[[nodiscard]] Graph converted_graph(const GraphModule& model, const Recipe& recipe, const NetworkQuantizer* quantizer,
                                    const ConvertOptions& options = {});

}  // namespace podaq::compress_detail
