#pragma once

#include <map>
#include <string>

#include "podaq/graph/graph.h"
#include "podaq/numerics/qparams.h"

namespace podaq::compress_detail {

/// Which steps of a fused graph work on codes, and how; all by the names of values, which fusing keeps.
struct IntegerPlan {
  std::map<std::string, QParams> values;      ///< Values that some step reads as codes.
  std::map<std::string, int> steps_on_codes;  ///< By output value; the weight bits where the step has weights.
};

/// The integer graph of a fused float graph with data. Where floats and codes meet it inserts Quantize and Dequantize;
/// a value that is read as codes is rounded once, and its float readers (and the network's outputs) get the dequantized
/// numbers. Throws as encode_layer does.
[[nodiscard]] Graph to_integer_graph(const Graph& fused, const IntegerPlan& plan);

}  // namespace podaq::compress_detail
