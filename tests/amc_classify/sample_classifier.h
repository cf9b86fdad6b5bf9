#pragma once

#include <string>
#include <vector>

#include "podaq/graph/graph.h"

namespace podaq::amc {

/// Frames {2, length} into three classes, by the sums of their parts: "in-phase" where that of I is largest,
/// "quadrature" where that of Q is, "negative" where −I is.
inline Graph sample_classifier(std::int64_t length, const std::string& class_names = "in-phase,quadrature,negative") {
  Graph graph;
  const ValueId frame = add_value(graph, "x", {2, length});
  const ValueId flat = add_value(graph, "flat", {2 * length});
  const ValueId result = add_value(graph, "y", {3});
  graph.inputs = {frame};
  graph.outputs = {result};
  std::vector<float> weight;
  const auto row = [&](float in_phase, float quadrature) {
    weight.insert(weight.end(), static_cast<std::size_t>(length), in_phase);
    weight.insert(weight.end(), static_cast<std::size_t>(length), quadrature);
  };
  row(1, 0);
  row(0, 1);
  row(-1, 0);
  graph.tensors["weight"] = make_tensor<float>(DType::f32, {3, 2 * length}, weight);
  graph.tensors["bias"] = make_tensor<float>(DType::f32, {3}, std::vector<float>(3, 0.0F));
  graph.nodes.push_back(
      {.op = Reshape{.shape = {2 * length}}, .name = "flatten", .inputs = {frame}, .tensors = {}, .output = flat});
  graph.nodes.push_back(
      {.op = Linear{}, .name = "linear", .inputs = {flat}, .tensors = {"weight", "bias"}, .output = result});
  graph.metadata["classes"] = class_names;
  return graph;
}

}  // namespace podaq::amc
