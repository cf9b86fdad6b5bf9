#pragma once

#include <optional>
#include <string>
#include <vector>

#include "podaq/graph/graph.h"
#include "support/random_graph.h"

namespace podaq::test {

/// A graph under construction.
struct GraphBuilder {
  explicit GraphBuilder(std::uint64_t seed) : draws(seed) {}

  /// Appends a node whose output shape is inferred, and returns its output.
  ValueId append(Op op, std::vector<ValueId> inputs, std::vector<std::string> tensors = {},
                 std::optional<QParams> qparams = std::nullopt);

  /// A float tensor of roughly normal elements with the given deviation.
  std::string float_tensor(const std::string& name, Shape shape, float mean, float deviation);

  /// One of `among`, the later ones more often.
  ValueId pick(const std::vector<ValueId>& among);

  /// A value of `among`, other than `except` if possible, with that shape.
  std::optional<ValueId> pick_of_shape(const std::vector<ValueId>& among, const Shape& shape, ValueId except);

  [[nodiscard]] const Shape& shape_of(ValueId value) const { return graph.values[value].shape; }

  Draws draws;
  Graph graph;
};

}  // namespace podaq::test
