#pragma once

#include <array>

#include "podaq/graph/graph.h"

/// y = {x0 + 2 x1 + 1, 3 x0 + 4 x1 - 1}: a network small enough to be checked by hand.
inline podaq::Graph sample_network() {
  podaq::Graph graph;
  const podaq::ValueId x = podaq::add_value(graph, "x", {2});
  const podaq::ValueId y = podaq::add_value(graph, "y", {2});
  graph.inputs = {x};
  graph.outputs = {y};
  graph.tensors["layer.weight"] =
      podaq::make_tensor<float>(podaq::DType::f32, {2, 2}, std::array{1.0F, 2.0F, 3.0F, 4.0F});
  graph.tensors["layer.bias"] = podaq::make_tensor<float>(podaq::DType::f32, {2}, std::array{1.0F, -1.0F});
  graph.nodes.push_back(
      {.op = podaq::Linear{}, .name = "layer", .inputs = {x}, .tensors = {"layer.weight", "layer.bias"}, .output = y});
  return graph;
}
