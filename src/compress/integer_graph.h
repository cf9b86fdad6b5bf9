#pragma once

#include <map>
#include <string>
#include <vector>

#include "podaq/graph/graph.h"
#include "podaq/numerics/qparams.h"
#include "podaq/quantize/weight_scales.h"

namespace podaq::compress_detail {

/// A step on codes.
struct StepOnCodes {
  WeightQuantization weight = {};   ///< Where the step has weights.
  std::vector<float> learned = {};  ///< The learned steps of its folded weight, if any (choose_weight_scales).
};

/// Which steps of a fused graph work on codes, and how; all by the names of values, which fusing keeps.
struct IntegerPlan {
  std::map<std::string, QParams> values;              ///< Values that are held as codes.
  std::map<std::string, StepOnCodes> steps_on_codes;  ///< By output value.
};

/// The integer graph of a fused float graph with data. Where floats and codes meet it inserts Quantize and Dequantize;
/// a value that is read as codes is rounded once, and its float readers (and the network's outputs) get the dequantized
/// numbers. Throws as encode_layer does.
[[nodiscard]] Graph to_integer_graph(const Graph& fused, const IntegerPlan& plan);

}  // namespace podaq::compress_detail
