#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "podaq/graph/ops.h"
#include "podaq/graph/tensor.h"
#include "podaq/numerics/qparams.h"

namespace podaq {

/// Index into Graph::values.
using ValueId = std::uint32_t;

/// What flows along an edge: float numbers, or u8 codes where `qparams` is set. Every value has a leading batch
/// dimension that `shape` leaves out.
struct Value {
  std::string name;                ///< Unique in the graph.
  Shape shape;                     ///< Per sample.
  std::optional<QParams> qparams;  ///< Set: u8 codes under these parameters; none: float.

  friend bool operator==(const Value&, const Value&) = default;
};

/// One operation. Node names are the module's own layer names ("features.0") where there is one.
struct Node {
  Op op;                             ///< What it computes.
  std::string name;                  ///< Unique in the graph.
  std::vector<ValueId> inputs;       ///< In the order the op documents.
  std::vector<std::string> tensors;  ///< Names into Graph::tensors, in the order the op documents; "" is absent.
  ValueId output = 0;                ///< The value that it computes.

  friend bool operator==(const Node&, const Node&) = default;
};

/// A network as data: nodes in execution order, values, constants by name.
///
/// Float graphs hold no qparams. In integer graphs (made by `convert`) conv, linear, add, mul, means and table
/// activations whose output has qparams work on codes; a conv or linear with quantized input and unquantized output
/// gives float numbers (the network's output). Weights of float layers may be codes too (weight-only quantization).
struct Graph {
  std::vector<Value> values;                    ///< All that flows.
  std::vector<Node> nodes;                      ///< In execution order.
  std::vector<ValueId> inputs;                  ///< Values that the user gives.
  std::vector<ValueId> outputs;                 ///< Values that the user gets.
  std::map<std::string, Tensor> tensors;        ///< Constants, by name.
  std::map<std::string, std::string> metadata;  ///< Class labels, input normalization, recipe hash, producer.

  friend bool operator==(const Graph&, const Graph&) = default;
};

/// Appends a value and returns its id.
ValueId add_value(Graph& graph, std::string name, Shape shape, std::optional<QParams> qparams = std::nullopt);

/// The node that computes `value`, or nullptr for an input of the graph.
[[nodiscard]] const Node* producer(const Graph& graph, ValueId value);

/// How many node inputs and graph outputs read each value.
[[nodiscard]] std::vector<std::size_t> reader_counts(const Graph& graph);

/// The tensor of that name; throws Error(graph) naming it if there is none.
[[nodiscard]] const Tensor& tensor_at(const Graph& graph, const std::string& name);

/// Multiply-accumulates of one sample of a node, zero weights included; 0 where it has no weights.
[[nodiscard]] std::size_t macs_of(const Graph& graph, const Node& node);

}  // namespace podaq
