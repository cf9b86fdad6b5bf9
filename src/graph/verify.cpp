#include "podaq/graph/verify.h"

#include <set>
#include <string>
#include <vector>

#include "graph/node_access.h"
#include "graph/rules.h"
#include "podaq/numerics/rounding.h"

namespace podaq {

namespace {

using namespace graph_detail;

constexpr std::size_t largest_rank = 8;
constexpr std::int64_t most_elements = (std::int64_t{1} << 31) - 1;  // so that 32-bit offsets reach every element

[[noreturn]] void refuse(std::string_view what, std::string_view name, std::string_view problem) {
  throw Error(ErrorCode::graph, concat(what, " '", name, "': ", problem));
}

void check_name(std::string_view what, const std::string& name, std::set<std::string_view>& known) {
  if (name.empty()) throw Error(ErrorCode::graph, concat("a ", what, " has an empty name"));
  if (!is_utf8(name)) throw Error(ErrorCode::graph, concat("the name of a ", what, " is not valid UTF-8"));
  if (!known.insert(name).second) refuse(what, name, "the name is used twice");
}

void check_qparams(const Value& value) {
  const QParams& q = *value.qparams;
  if (!numerics::is_valid_scale(q.scale))
    refuse("value", value.name, concat("scale ", q.scale, " is not a positive normal float with a normal reciprocal"));
  if (q.lowest < 0 || q.highest > 255 || q.lowest >= q.highest)
    refuse("value", value.name, concat("codes ", q.lowest, " to ", q.highest, " are no range within 0 to 255"));
  if (q.zero_point < q.lowest || q.zero_point > q.highest)
    refuse("value", value.name,
           concat("zero point ", q.zero_point, " is outside its codes ", q.lowest, " to ", q.highest));
}

void check_values(const Graph& graph) {
  std::set<std::string_view> names;
  for (const Value& value : graph.values) {
    check_name("value", value.name, names);
    if (value.shape.size() > largest_rank)
      refuse("value", value.name, concat("rank ", value.shape.size(), " exceeds ", largest_rank));
    const std::int64_t count = element_count(value.shape);
    if (count < 1 || count > most_elements)
      refuse("value", value.name, concat("shape ", text_of(value.shape), " does not hold 1 to 2^31 - 1 elements"));
    if (value.qparams) check_qparams(value);
  }
}

void check_tensors(const Graph& graph, VerifyOptions options) {
  std::set<std::string_view> names;
  for (const auto& [name, tensor] : graph.tensors) {
    check_name("tensor", name, names);
    if (tensor.shape.size() > largest_rank)
      refuse("tensor", name, concat("rank ", tensor.shape.size(), " exceeds ", largest_rank));
    check_tensor(name, tensor, options.tensors_have_data);
  }
}

void check_metadata(const Graph& graph) {
  for (const auto& [key, text] : graph.metadata)
    if (key.empty() || !is_utf8(key) || !is_utf8(text))
      throw Error(ErrorCode::graph, "a metadata key is empty, or a key or text is not valid UTF-8");
}

// The values that exist before the first node runs.
std::vector<bool> check_inputs(const Graph& graph) {
  std::vector<bool> available(graph.values.size(), false);
  for (const ValueId input : graph.inputs) {
    if (input >= graph.values.size())
      throw Error(ErrorCode::graph,
                  concat("an input of the graph is value ", input, ", there are only ", graph.values.size()));
    if (available[input]) refuse("value", graph.values[input].name, "is listed twice among the graph's inputs");
    if (graph.values[input].qparams)
      refuse("value", graph.values[input].name, "is an input of codes; inputs are float");
    available[input] = true;
  }
  return available;
}

void check_outputs(const Graph& graph, const std::vector<bool>& is_input, const std::vector<bool>& available) {
  if (graph.outputs.empty()) throw Error(ErrorCode::graph, "the graph has no output");
  std::set<ValueId> listed;
  for (const ValueId output : graph.outputs) {
    if (output >= graph.values.size())
      throw Error(ErrorCode::graph,
                  concat("an output of the graph is value ", output, ", there are only ", graph.values.size()));
    const Value& value = graph.values[output];
    if (!available[output]) refuse("value", value.name, "is an output of the graph that no node computes");
    if (is_input[output]) refuse("value", value.name, "is an input and an output of the graph");
    if (!listed.insert(output).second) refuse("value", value.name, "is listed twice among the graph's outputs");
    if (value.qparams) refuse("value", value.name, "is an output of codes; outputs are float");
  }
}

void check_node(const Graph& graph, const Node& node, VerifyOptions options, std::vector<bool>& available) {
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    if (const Value& input = input_of(graph, node, i); !available[node.inputs[i]])
      fail(node, concat("reads value '", input.name, "' before it is computed"));
  if (node.output >= graph.values.size())
    fail(node, concat("its output is value ", node.output, ", the graph has ", graph.values.size()));
  const Value& output = graph.values[node.output];
  if (available[node.output]) fail(node, concat("computes value '", output.name, "', which exists already"));
  if (const Shape shape = infer_shape(graph, node); shape != output.shape)
    fail(node,
         concat("its output '", output.name, "' has shape ", text_of(output.shape), " instead of ", text_of(shape)));
  check_codes(graph, node);
  if (options.tensors_have_data) check_accumulators(graph, node);
  available[node.output] = true;
}

}  // namespace

void verify(const Graph& graph, VerifyOptions options) {
  check_values(graph);
  check_tensors(graph, options);
  check_metadata(graph);
  const std::vector<bool> is_input = check_inputs(graph);
  std::vector<bool> available = is_input;
  std::set<std::string_view> names;
  for (const Node& node : graph.nodes) {
    check_name("node", node.name, names);
    check_node(graph, node, options, available);
  }
  check_outputs(graph, is_input, available);
}

}  // namespace podaq
