#include "compress/integer_graph.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "podaq/graph/passes.h"
#include "podaq/graph/verify.h"
#include "podaq/quantize/layer_codes.h"

namespace podaq::compress_detail {
namespace {

class IntegerGraphBuilder {
 public:
  IntegerGraphBuilder(const Graph& source, const IntegerPlan& plan)
      : source_(source), plan_(plan), codes_(source.values.size()), floats_(source.values.size()) {
    for (const Value& value : source.values) names_.insert(value.name);
    result_.metadata = source.metadata;
  }

  void take_input(ValueId input) {
    const Value& value = source_.values[input];
    const ValueId number = add_value(result_, value.name, value.shape);
    result_.inputs.push_back(number);
    take_number(input, number);
  }

  void take(const Node& node) {
    const auto step = plan_.steps_on_codes.find(source_.values[node.output].name);
    if (step == plan_.steps_on_codes.end())
      append_float(node);
    else
      append_on_codes(node, step->second);
  }

  [[nodiscard]] Graph result() && {
    for (const ValueId output : source_.outputs) result_.outputs.push_back(as_float(output));
    return remove_unused(result_);
  }

 private:
  [[nodiscard]] std::optional<QParams> qparams_of(ValueId value) const {
    const auto found = plan_.values.find(source_.values[value].name);
    return found == plan_.values.end() ? std::nullopt : std::optional(found->second);
  }

  [[nodiscard]] bool is_output(ValueId value) const {
    return std::find(source_.outputs.begin(), source_.outputs.end(), value) != source_.outputs.end();
  }

  std::string fresh_name(std::string name) {
    while (!names_.insert(name).second) name += '_';
    return name;
  }

  // The value's codes bear its name, unless an input or output of the network must.
  ValueId add_codes(ValueId value, bool name_is_taken) {
    const Value& original = source_.values[value];
    const std::string name = name_is_taken ? fresh_name(original.name + ".codes") : original.name;
    return add_value(result_, name, original.shape, qparams_of(value));
  }

  // `number` is what `value` is before rounding.
  void take_number(ValueId value, ValueId number) {
    if (!qparams_of(value)) {
      floats_[value] = number;
      return;
    }
    const bool is_input = std::find(source_.inputs.begin(), source_.inputs.end(), value) != source_.inputs.end();
    codes_[value] = add_codes(value, is_input || is_output(value));
    result_.nodes.push_back({.op = Quantize{},
                             .name = source_.values[value].name + ".quantize",
                             .inputs = {number},
                             .tensors = {},
                             .output = *codes_[value]});
  }

  ValueId as_float(ValueId value) {
    if (floats_[value]) return *floats_[value];
    const Value& original = source_.values[value];
    const std::string name = is_output(value) ? original.name : fresh_name(original.name + ".float");
    const ValueId number = add_value(result_, name, original.shape);
    result_.nodes.push_back({.op = Dequantize{},
                             .name = original.name + ".dequantize",
                             .inputs = {*codes_[value]},
                             .tensors = {},
                             .output = number});
    floats_[value] = number;
    return number;
  }

  // Adds the float output of `node`, last, so that nodes stand in execution order.
  void append_with_number(Node node) {
    const ValueId value = node.output;
    const Value& original = source_.values[value];
    const std::string name = qparams_of(value) ? fresh_name(original.name + ".number") : original.name;
    const ValueId number = add_value(result_, name, original.shape);
    node.output = number;
    result_.nodes.push_back(std::move(node));
    take_number(value, number);
  }

  void append_float(Node node) {
    for (ValueId& input : node.inputs) input = as_float(input);
    for (const std::string& name : node.tensors)
      if (!name.empty()) result_.tensors[name] = tensor_at(source_, name);
    append_with_number(std::move(node));
  }

  void append_on_codes(Node node, const StepOnCodes& step) {
    if (has_weights(node.op)) encode(node, step);
    for (ValueId& input : node.inputs) input = codes_[input].value();
    if (!qparams_of(node.output)) {
      append_with_number(std::move(node));
      return;
    }
    const ValueId codes = add_codes(node.output, is_output(node.output));
    codes_[node.output] = codes;
    node.output = codes;
    result_.nodes.push_back(std::move(node));
  }

  void encode(Node& node, const StepOnCodes& step) {
    const Tensor& weight = tensor_at(source_, node.tensors.at(0));
    const bool has_bias = node.tensors.size() > 1 && !node.tensors[1].empty();
    const Tensor* bias = has_bias ? &tensor_at(source_, node.tensors[1]) : nullptr;
    LayerCodes codes =
        encode_layer(node.name, weight, bias, step.weight, step.learned, qparams_of(node.inputs.at(0)).value());
    node.tensors[0] = store(node.tensors[0], std::move(codes.weight));
    if (codes.bias) node.tensors[1] = store(node.tensors[1], std::move(*codes.bias));
  }

  // Tied layers share a tensor only where they come to the same codes and scales.
  std::string store(std::string name, Tensor tensor) {
    for (auto found = result_.tensors.find(name); found != result_.tensors.end(); found = result_.tensors.find(name)) {
      if (found->second == tensor) return name;
      name += ".tied";
    }
    result_.tensors.emplace(name, std::move(tensor));
    return name;
  }

  const Graph& source_;
  const IntegerPlan& plan_;
  Graph result_;
  std::vector<std::optional<ValueId>> codes_;   // per source value: its codes in the result
  std::vector<std::optional<ValueId>> floats_;  // per source value: what its float readers read
  std::set<std::string> names_;
};

}  // namespace

Graph to_integer_graph(const Graph& fused, const IntegerPlan& plan) {
  IntegerGraphBuilder builder(fused, plan);
  for (const ValueId input : fused.inputs) builder.take_input(input);
  for (const Node& node : fused.nodes) builder.take(node);
  Graph result = std::move(builder).result();
  verify(result);
  return result;
}

}  // namespace podaq::compress_detail
