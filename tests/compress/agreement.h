#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "podaq/core/text.h"
#include "podaq/graph/graph.h"
#include "podaq/numerics/quantize.h"
#include "podaq/quantize/fake_quantize.h"
#include "podaq/runtime/runner.h"
#include "podaq/training/graph_module.h"

namespace podaq::test {

inline std::span<const float> floats(const torch::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

/// What a converted graph computes for the samples, through Model and Runner: one tensor per output.
inline std::vector<torch::Tensor> run_graph(const Graph& graph, const std::vector<torch::Tensor>& inputs) {
  const Model model(graph);
  Runner runner(model, {.max_batch = 64});
  const std::int64_t batch = inputs.at(0).size(0);
  std::vector<torch::Tensor> rows;
  std::vector<Runner::Input> in;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    rows.push_back(inputs[i].detach().contiguous());
    in.push_back({.name = model.inputs()[i].name, .data = floats(rows.back())});
  }
  std::vector<torch::Tensor> results;
  std::vector<Runner::Output> out;
  for (const Port& port : model.outputs()) {
    std::vector<std::int64_t> shape = port.shape;
    shape.insert(shape.begin(), batch);
    results.push_back(torch::empty(shape));
    out.push_back({.name = port.name,
                   .data = {results.back().data_ptr<float>(), static_cast<std::size_t>(results.back().numel())}});
  }
  runner.run(in, out);
  return results;
}

/// The name that a value of a converted graph had before conversion.
inline std::string original_name(std::string name) {
  for (const std::string suffix : {".codes", ".float", ".number"})
    if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
  return name;
}

/// The parameters of every value that is read as codes, by its name before conversion.
inline std::map<std::string, QParams> rounded_values(const Graph& converted) {
  std::map<std::string, QParams> qparams;
  for (const Value& value : converted.values)
    if (value.qparams) qparams.emplace(original_name(value.name), *value.qparams);
  return qparams;
}

/// Every step's value, as the fake-quantized network computes it in eval mode under the parameters of `converted`.
inline std::map<std::string, torch::Tensor> record_values(GraphModule& model, const Graph& converted,
                                                          const std::vector<torch::Tensor>& inputs) {
  const std::map<std::string, QParams> qparams = rounded_values(converted);
  std::map<std::string, torch::Tensor> values;
  const auto record = [&](ValueId id) {
    const std::string name = model.graph().values[id].name;
    model.set_value_hook(id, [&values, &qparams, name](const torch::Tensor& value, bool) {
      const auto q = qparams.find(name);
      values[name] = q == qparams.end() ? value.detach() : fake_quantize(value, q->second).detach();
      return values[name];
    });
  };
  for (const ValueId input : model.graph().inputs) record(input);
  for (const Step& step : model.steps()) record(step.output);
  const torch::NoGradGuard no_grad;
  model.eval();
  model.forward(inputs);
  return values;
}

/// How far a converted node is from the network's step, given the network's own inputs.
struct NodeDistance {
  std::string node;
  double steps = 0;  ///< Largest difference in output codes, or for float outputs relative to the largest output.
  bool is_float = false;
};

/// Runs every node of `converted` by itself on the values that the network computed before it.
inline std::vector<NodeDistance> node_distances(const Graph& converted,
                                                const std::map<std::string, torch::Tensor>& values) {
  const std::map<std::string, QParams> qparams = rounded_values(converted);
  std::vector<NodeDistance> distances;
  for (const Node& node : converted.nodes) {
    if (std::holds_alternative<Quantize>(node.op) || std::holds_alternative<Dequantize>(node.op)) continue;
    Graph alone;
    std::vector<torch::Tensor> inputs;
    Node copy = node;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Value& value = converted.values[node.inputs[i]];
      inputs.push_back(values.at(original_name(value.name)));
      const ValueId number = add_value(alone, concat("in", i), value.shape);
      alone.inputs.push_back(number);
      copy.inputs[i] = number;
      if (!value.qparams) continue;
      copy.inputs[i] = add_value(alone, concat("codes", i), value.shape, value.qparams);
      alone.nodes.push_back(
          {.op = Quantize{}, .name = concat("q", i), .inputs = {number}, .tensors = {}, .output = copy.inputs[i]});
    }
    for (const std::string& tensor : node.tensors)
      if (!tensor.empty()) alone.tensors[tensor] = converted.tensors.at(tensor);
    const Value& output = converted.values[node.output];
    copy.output = add_value(alone, "result", output.shape, output.qparams);
    alone.nodes.push_back(copy);
    alone.outputs = {copy.output};
    if (output.qparams) {
      alone.outputs = {add_value(alone, "number", output.shape)};
      alone.nodes.push_back(
          {.op = Dequantize{}, .name = "d", .inputs = {copy.output}, .tensors = {}, .output = alone.outputs[0]});
    }
    torch::Tensor got = run_graph(alone, inputs).at(0);
    const torch::Tensor expected = values.at(original_name(output.name));
    const auto rounding = qparams.find(original_name(output.name));
    const bool is_float = rounding == qparams.end();
    if (!is_float && !output.qparams) got = fake_quantize(got, rounding->second);  // a Quantize node follows
    const double difference = (got - expected).abs().max().item<double>();
    const double unit = is_float ? expected.abs().max().item<double>() + 1e-6 : rounding->second.scale;
    distances.push_back({.node = node.name, .steps = difference / unit, .is_float = is_float});
  }
  return distances;
}

}  // namespace podaq::test
