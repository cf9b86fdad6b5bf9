#pragma once

#include "compress/goldbarg_training.h"
#include "podaq/compress/compressor.h"
#include "podaq/compress/recipe.h"
#include "podaq/graph/graph.h"
#include "podaq/quantize/network_quantizer.h"
#include "podaq/training/graph_module.h"

namespace podaq::compress_detail {

/// The network on codes, as it stands. Throws Error(invalid_argument) naming the layer or value where a value was never
/// observed, numbers are not finite or an accumulator could overflow.
[[nodiscard]] Graph integer_graph(const GraphModule& model, const NetworkQuantizer& quantizer);

/// What rounds a network's numbers; one of them, or none.
struct Rounding {
  const NetworkQuantizer* quantizer = nullptr;
  const GoldbargTraining* goldbarg = nullptr;
};

/// The graph that a file of the network holds: on codes with a quantizer, else float, with weights as codes where
/// `rounding` makes some. Throws as integer_graph does.
/// @param recipe  whose hash the metadata name.
[[nodiscard]] Graph converted_graph(const GraphModule& model, const Recipe& recipe, const Rounding& rounding,
                                    const ConvertOptions& options = {});

}  // namespace podaq::compress_detail
