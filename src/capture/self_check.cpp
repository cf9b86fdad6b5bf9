#include "capture/self_check.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "podaq/core/error.h"
#include "podaq/core/text.h"

namespace podaq::capture_detail {

namespace {

// A node by what it does, free of value ids.
struct Line {
  Op op;
  std::string name;
  std::vector<std::string> inputs, tensors;

  friend bool operator==(const Line&, const Line&) = default;
};

std::vector<Line> lines_of(const Graph& graph) {
  std::map<ValueId, ValueId> undropped;
  const auto source = [&](ValueId value) {
    const auto found = undropped.find(value);
    return found == undropped.end() ? value : found->second;
  };
  std::vector<Line> lines;
  for (const Node& node : graph.nodes) {
    if (std::holds_alternative<Dropout>(node.op)) {
      undropped[node.output] = source(node.inputs[0]);
      continue;
    }
    Line line{.op = node.op, .name = node.name, .inputs = {}, .tensors = node.tensors};
    for (const ValueId input : node.inputs) {
      const Node* from = producer(graph, source(input));
      line.inputs.push_back(from != nullptr ? from->name : graph.values[source(input)].name);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

double largest_magnitude(const at::Tensor& tensor) {
  const at::Tensor finite = tensor.masked_select(tensor.isfinite());
  return finite.numel() == 0 ? 0.0 : finite.abs().max().item<double>();
}

// Infinite where one side is not a number, or infinite, and the other is not alike.
double largest_difference_of(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0) return 0.0;
  const at::Tensor alike = (a == b) | (a.isnan() & b.isnan());
  const at::Tensor difference = at::where(alike, at::zeros_like(a), (a - b).abs());
  const double largest = difference.max().item<double>();
  return std::isnan(largest) ? std::numeric_limits<double>::infinity() : largest;
}

// @param scale  of what the numbers were summed from, where they may cancel out.
void compare(const std::string& what, const at::Tensor& expected, const at::Tensor& got, double relative,
             double scale = 0) {
  if (expected.sizes() != got.sizes()) throw Error(ErrorCode::capture, concat(what, " has another shape"));
  const at::Tensor wanted = expected.to(at::kDouble);
  const double difference = largest_difference_of(wanted, got.to(at::kDouble));
  const double allowed = relative * std::max(largest_magnitude(wanted), scale);
  if (difference > allowed)
    throw Error(ErrorCode::capture, concat(what, " differs by up to ", difference, " (allowed: ", allowed,
                                           "): the module computes something that its trace does not show"));
}

// Running variances by the names of the running means beside them.
std::map<std::string, at::Tensor> running_variances(const GraphModule& captured) {
  std::map<std::string, at::Tensor> variances;
  for (const Node& node : captured.graph().nodes)
    if (std::holds_alternative<BatchNorm>(node.op))
      variances.emplace(node.tensors.at(2), captured.tensor(node.tensors.at(3)).clone());
  return variances;
}

// By how much a batch of the layer's own deviation from its mean moves each running mean. The means themselves may be
// nothing but rounding: what a convolution makes of normalized channels has the mean 0.
std::map<std::string, double> movements_of_means(const GraphModule& captured,
                                                 const std::map<std::string, at::Tensor>& variances_before) {
  std::map<std::string, double> movements;
  for (const Node& node : captured.graph().nodes) {
    const auto* norm = std::get_if<BatchNorm>(&node.op);
    if (norm == nullptr) continue;
    const double momentum = norm->momentum.value_or(1.0);
    const at::Tensor before = variances_before.at(node.tensors.at(2));
    const at::Tensor added = captured.tensor(node.tensors.at(3)) - (1 - momentum) * before;
    movements[node.tensors.at(2)] = momentum > 0 ? std::sqrt(momentum * largest_magnitude(added)) : 0.0;
  }
  return movements;
}

}  // namespace

void check_same_structure(const Graph& first, const Graph& second, const std::string& what_differs) {
  const std::vector<Line> a = lines_of(first);
  const std::vector<Line> b = lines_of(second);
  const auto [left, right] = std::ranges::mismatch(a, b);
  if (left == a.end() && right == b.end()) return;
  throw Error(ErrorCode::capture,
              concat("the module computes something else for ", what_differs, ", first at '",
                     left != a.end() ? left->name : right->name,
                     "': its forward must not depend on the data, the batch size or, but for dropout and batch norm, "
                     "on the mode"));
}

void check_outputs(GraphModule& captured, const Trace& trace, const std::vector<RegisteredTensor>& tensors,
                   const ModuleState& state, const RandomState& random, double largest_difference) {
  const torch::NoGradGuard no_grad;
  state.restore_tensors();
  random.seed(check_seed);
  captured.train(trace.training);
  const std::map<std::string, at::Tensor> variances = running_variances(captured);
  const std::vector<at::Tensor> outputs = captured.forward(trace.inputs);
  const std::string mode = concat("in ", trace.training ? "train" : "eval", " mode at batch ", trace.inputs[0].size(0));
  for (std::size_t i = 0; i < outputs.size(); ++i)
    compare(concat("the captured network's output ", i, " ", mode), trace.outputs[i], outputs[i], largest_difference);
  const std::map<std::string, double> movements = movements_of_means(captured, variances);
  auto buffer = trace.buffers.begin();
  for (const RegisteredTensor& registered : tensors) {
    if (registered.is_parameter) continue;
    const auto movement = movements.find(registered.name);
    compare(concat("the captured network's '", registered.name, "' after a batch ", mode), *buffer++, registered.tensor,
            largest_difference, movement == movements.end() ? 0.0 : movement->second);
  }
  state.restore_tensors();
}

}  // namespace podaq::capture_detail
