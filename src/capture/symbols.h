#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/ir/ir.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "podaq/graph/graph.h"

namespace podaq::capture_detail {

/// A tensor that the module registers, under its first name.
struct RegisteredTensor {
  std::string name;
  at::Tensor tensor;
  bool is_parameter = true;
};

/// One run of the module's forward under the tracer, and what came out of it.
struct Trace {
  std::shared_ptr<torch::jit::Graph> graph;  ///< Registered tensor i is the attribute "t<i>".
  bool training = false;
  std::vector<at::Tensor> inputs, outputs;
  std::vector<at::Tensor> buffers;  ///< Copies of the registered buffers as the run left them, in their order.
};

/// A registered tensor as a value of the trace.
struct TensorReference {
  std::size_t index = 0;  ///< Into the registered tensors.
  bool transposed = false;
};

/// A tensor of one constant, or a number.
struct Uniform {
  double value = 0;
};

/// What a value of the trace stands for. Values that no rule has mapped stand for nothing.
using Symbol = std::variant<std::monostate, ValueId, TensorReference, Uniform>;

/// A trace half turned into a graph.
struct Mapping {
  const Trace& trace;
  const std::vector<RegisteredTensor>& tensors;
  const std::map<std::string, std::optional<double>>& momenta;  ///< Of the module's batch norms, by layer name.
  std::int64_t batch = 0;
  Graph graph;
  std::map<const torch::jit::Value*, Symbol> symbols;
  std::string last_layer;                ///< The nearest layer with tensors so far.
  std::set<std::string> names;           ///< Of the nodes so far.
  std::set<std::string> boundary_names;  ///< Of the graph's inputs and outputs.
};

/// Throws Error(capture) naming the operation of `node` and the layer that called it.
[[noreturn]] void refuse(const Mapping& mapping, const torch::jit::Node& node, std::string_view reason);

/// The registered tensor that a value of the trace is, or nullptr.
[[nodiscard]] const TensorReference* reference_of(const Mapping& mapping, const torch::jit::Value* value);

/// "aten::relu" for both aten::relu and aten::relu_.
[[nodiscard]] std::string out_of_place_name(const torch::jit::Node& node);

/// The sizes of a value at this trace's batch.
[[nodiscard]] Shape sizes_of(const Mapping& mapping, const torch::jit::Node& node, const torch::jit::Value* value);

// Arguments of `node` by their schema names; each throws naming the argument where it is of another kind.
[[nodiscard]] const torch::jit::Value* argument(const Mapping& mapping, const torch::jit::Node& node, const char* name);
[[nodiscard]] bool is_none(const torch::jit::Value* value);
[[nodiscard]] ValueId value_of(const Mapping& mapping, const torch::jit::Node& node, const torch::jit::Value* value);
[[nodiscard]] std::vector<std::int64_t> integers(const Mapping& mapping, const torch::jit::Node& node,
                                                 const char* name);
/// A list with one entry per spatial dimension, where a single entry stands for all.
[[nodiscard]] std::vector<std::int64_t> spread(std::vector<std::int64_t> attribute, std::size_t spatial);
[[nodiscard]] std::int64_t integer(const Mapping& mapping, const torch::jit::Node& node, const char* name);
[[nodiscard]] double number(const Mapping& mapping, const torch::jit::Node& node, const char* name);
[[nodiscard]] std::optional<double> optional_number(const Mapping& mapping, const torch::jit::Node& node,
                                                    const char* name);
[[nodiscard]] bool boolean(const Mapping& mapping, const torch::jit::Node& node, const char* name);
[[nodiscard]] std::string text(const Mapping& mapping, const torch::jit::Node& node, const char* name);

/// The number that a value stands for: a constant, or a tensor of one constant.
[[nodiscard]] std::optional<double> uniform_of(const Mapping& mapping, const torch::jit::Value* value);

/// The registered tensor that an argument must be, its name entered into the graph; none where the argument is None.
[[nodiscard]] std::optional<std::string> tensor_name(Mapping& mapping, const torch::jit::Node& node, const char* name);

/// Names a registered tensor in the graph and returns its name.
std::string use_tensor(Mapping& mapping, std::size_t index);

/// `dimension` counted from the front, and not the batch.
[[nodiscard]] std::int64_t sample_axis(const Mapping& mapping, const torch::jit::Node& node, std::int64_t dimension,
                                       std::size_t rank);

/// Appends a node and returns its value. The name is that of the layer that holds the first tensor, or made from
/// `kind` and the layer before. Throws where the node's inferred shape does not fit its inputs.
ValueId append(Mapping& mapping, const torch::jit::Node& node, std::string_view kind, Op op,
               std::vector<ValueId> inputs, std::vector<std::string> tensors = {});

/// Makes `value` the first output of `node`; throws where shape (batch included), dtype or device of the trace differ.
void finish(Mapping& mapping, const torch::jit::Node& node, ValueId value);

/// The layer that holds a tensor: "features.0" for "features.0.weight".
[[nodiscard]] std::string layer_of(const std::string& tensor);

/// The registered tensor that the node prim::GetAttr reads.
[[nodiscard]] std::size_t registered_index(const torch::jit::Node& get_attribute);

}  // namespace podaq::capture_detail
