#include "capture/mapping.h"

#include <torch/torch.h>

#include <algorithm>

#include "capture/memory.h"
#include "podaq/core/error.h"
#include "podaq/core/text.h"

namespace podaq::capture_detail {

namespace jit = torch::jit;

namespace {

const Rule* rule_for(const std::string& operation) {
  for (const auto rules : {layer_rules(), pooling_rules(), elementwise_rules(), shape_rules()})
    if (const auto rule = std::ranges::find(rules, operation, &Rule::operation); rule != rules.end()) return &*rule;
  return nullptr;
}

void map_inputs(Mapping& mapping, const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto sizes = mapping.trace.inputs[i].sizes();
    const ValueId value = add_value(mapping.graph, names[i], {sizes.begin() + 1, sizes.end()});
    mapping.graph.inputs.push_back(value);
    mapping.symbols[mapping.trace.graph->inputs()[i + 1]] = value;  // input 0 is the module
  }
}

// A batch norm counts its batches in a buffer while training; GraphModule does so itself. No other write to a
// registered tensor may pass.
bool counts_batches(const Mapping& mapping, const jit::Node& node, std::size_t written) {
  const TensorReference* reference = reference_of(mapping, node.input(written));
  if (reference == nullptr) return false;
  const std::string& name = mapping.tensors[reference->index].name;
  const bool is_counter = name == "num_batches_tracked" || name.ends_with(".num_batches_tracked");
  if (is_counter && node.kind() == c10::aten::add_) return true;
  refuse(mapping, node, concat("it changes the module's tensor '", name, "', which the captured network would not"));
}

// Writing into a part of a tensor takes several operations; the write is the one that the user will recognise.
[[noreturn]] void refuse_unknown(const Mapping& mapping, const jit::Node& node) {
  bool is_after = false;
  for (const jit::Node* other : mapping.trace.graph->nodes()) {
    is_after = is_after || other == &node;
    if (is_after && written_argument(*other) && rule_for(out_of_place_name(*other)) == nullptr)
      refuse(mapping, *other, "it writes into a tensor in place; compute a new tensor instead");
  }
  refuse(mapping, node, "podaq has no operation for it");
}

void map_node(Mapping& mapping, Memory& memory, const jit::Node& node) {
  if (node.kind() == c10::prim::Constant || node.kind() == c10::prim::ListConstruct) return;
  if (node.kind() == c10::prim::GetAttr) {
    mapping.symbols[node.output()] = TensorReference{.index = registered_index(node), .transposed = false};
    return;
  }
  const auto written = written_argument(node);
  const bool is_read = std::ranges::any_of(node.outputs(), [](const jit::Value* value) { return value->hasUses(); });
  if (!is_read && !written) return;
  memory.check_reads(mapping, node);
  if (written && counts_batches(mapping, node, *written)) return;
  if (written && *written != 0) refuse(mapping, node, "it writes into an argument");
  const Rule* rule = rule_for(out_of_place_name(node));
  if (rule == nullptr) refuse_unknown(mapping, node);
  rule->map(mapping, node);
  memory.record(node);
}

// An output of the graph is computed by a node and named once.
ValueId output_of(Mapping& mapping, const jit::Node& node, ValueId value) {
  const std::vector<ValueId>& outputs = mapping.graph.outputs;
  const bool is_named = std::ranges::find(outputs, value) != outputs.end() || producer(mapping.graph, value) == nullptr;
  if (!is_named) return value;
  return append(mapping, node, "identity", Reshape{.shape = mapping.graph.values[value].shape}, {value});
}

void map_outputs(Mapping& mapping, const std::vector<std::string>& names) {
  const jit::Node& node = *mapping.trace.graph->return_node();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto symbol = mapping.symbols.find(node.input(i));
    const ValueId* value = symbol == mapping.symbols.end() ? nullptr : std::get_if<ValueId>(&symbol->second);
    if (value == nullptr) throw Error(ErrorCode::capture, concat("output ", i, " is not computed from the inputs"));
    mapping.graph.outputs.push_back(output_of(mapping, node, *value));
    mapping.graph.values[mapping.graph.outputs.back()].name = names[i];
  }
}

}  // namespace

void map_trace(Mapping& mapping, const std::vector<std::string>& input_names,
               const std::vector<std::string>& output_names) {
  mapping.batch = mapping.trace.inputs[0].size(0);
  mapping.boundary_names.insert(input_names.begin(), input_names.end());
  mapping.boundary_names.insert(output_names.begin(), output_names.end());
  map_inputs(mapping, input_names);
  Memory memory;
  for (const jit::Node* node : mapping.trace.graph->nodes()) map_node(mapping, memory, *node);
  memory.check_reads(mapping, *mapping.trace.graph->return_node());
  map_outputs(mapping, output_names);
}

}  // namespace podaq::capture_detail
