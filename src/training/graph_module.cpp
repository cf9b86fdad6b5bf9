#include "podaq/training/graph_module.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <ranges>
#include <set>
#include <string_view>
#include <utility>

#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "podaq/graph/verify.h"
#include "podaq/training/tensor_cut.h"

namespace podaq {

namespace {

Shape shape_of(const torch::Tensor& tensor) {
  return {tensor.sizes().begin(), tensor.sizes().end()};
}

// The module that holds the tensor "a.b.weight": root's descendant "a.b", created where missing.
torch::nn::Module& owner_of(torch::nn::Module& root, std::string_view tensor_name) {
  torch::nn::Module* module = &root;
  for (std::size_t dot = tensor_name.find('.'); dot != std::string_view::npos; dot = tensor_name.find('.')) {
    const std::string part(tensor_name.substr(0, dot));
    const auto children = module->named_children();
    const auto* child = children.find(part);
    module = child ? child->get() : module->register_module(part, std::make_shared<torch::nn::Module>(part)).get();
    tensor_name.remove_prefix(dot + 1);
  }
  return *module;
}

std::string last_part(const std::string& name) {
  return name.substr(name.rfind('.') + 1);  // npos + 1 is 0: a name without dots
}

Tensor data_of(const torch::Tensor& tensor, DType dtype) {
  const torch::Tensor plain = tensor.detach().to(torch::kCPU, dtype == DType::i32 ? torch::kInt : torch::kFloat);
  const torch::Tensor rows = plain.contiguous();
  Tensor copy{.dtype = dtype, .shape = shape_of(tensor), .bytes = {}, .scales = {}};
  copy.bytes.resize(rows.nbytes());
  std::memcpy(copy.bytes.data(), rows.const_data_ptr(), rows.nbytes());
  return copy;
}

}  // namespace

GraphModule::GraphModule(Graph graph, const std::map<std::string, torch::Tensor>& parameters,
                         const std::map<std::string, torch::Tensor>& buffers)
    : graph_(std::move(graph)) {
  verify(graph_, {.tensors_have_data = false});
  steps_ = find_steps(graph_);
  register_tensors(parameters, buffers);
  plan_nodes();
}

void GraphModule::register_tensors(const std::map<std::string, torch::Tensor>& parameters,
                                   const std::map<std::string, torch::Tensor>& buffers) {
  for (const Node& node : graph_.nodes) {
    for (const std::string& name : node.tensors) {
      if (name.empty() || tensors_.contains(name)) continue;
      const auto parameter = parameters.find(name);
      const auto buffer = buffers.find(name);
      if (parameter == parameters.end() && buffer == buffers.end())
        throw Error(ErrorCode::graph, concat("node '", node.name, "' needs the tensor '", name,
                                             "', which is neither among the parameters nor among the buffers"));
      const torch::Tensor& tensor = parameter != parameters.end() ? parameter->second : buffer->second;
      if (!tensor.defined() || shape_of(tensor) != tensor_at(graph_, name).shape)
        throw Error(ErrorCode::graph, concat("tensor '", name, "' does not have the shape that the graph says"));
      torch::nn::Module& owner = owner_of(*this, name);
      if (parameter != parameters.end())
        owner.register_parameter(last_part(name), tensor, tensor.requires_grad());
      else
        owner.register_buffer(last_part(name), tensor);
      tensors_.emplace(name, tensor);
    }
  }
}

void GraphModule::plan_nodes() {
  plans_.resize(graph_.nodes.size());
  const std::set<ValueId> outputs(graph_.outputs.begin(), graph_.outputs.end());
  std::set<ValueId> read_later;
  for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
    const Node& node = graph_.nodes[i];
    for (const std::string& name : node.tensors)
      plans_[i].tensors.push_back(name.empty() ? torch::Tensor() : tensors_.at(name));
    for (const ValueId input : node.inputs)
      if (read_later.insert(input).second && !outputs.contains(input)) plans_[i].last_uses.push_back(input);
  }
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    const Step& step = steps_[s];
    plans_[step.node].starts_step = s;
    const Op& op = graph_.nodes[step.node].op;
    if (has_weights(op)) {
      if (step.batch_norm) plans_[*step.batch_norm].folds_away = true;
      if (step.add) plans_[*step.add].owned_input = graph_.nodes[*step.add].inputs[0] == *step.residual ? 1 : 0;
    }
    const bool is_fresh = !std::holds_alternative<Clamp>(op) && !std::holds_alternative<Dropout>(op);
    if (step.clamp && *step.clamp != step.node && is_fresh) plans_[*step.clamp].owned_input = 0;
  }
}

torch::Tensor GraphModule::tensor(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end())
    throw Error(ErrorCode::invalid_argument, concat("the network has no tensor '", name, "'"));
  return found->second;
}

Graph GraphModule::snapshot() const {
  Graph copy = graph_;
  for (auto& [name, tensor] : copy.tensors)
    if (const auto found = tensors_.find(name); found != tensors_.end()) tensor = data_of(found->second, tensor.dtype);
  return copy;
}

void GraphModule::remove_channels(const SmallerGraph& smaller) {
  const auto is_alike = [](const Node& a, const Node& b) {
    return a.name == b.name && a.inputs == b.inputs && a.output == b.output && a.tensors == b.tensors;
  };
  if (!std::ranges::equal(smaller.graph.nodes, graph_.nodes, is_alike))
    throw Error(ErrorCode::graph, "remove channels: the smaller graph was made of another network");
  const auto without_channels = [&](const auto& named) {
    std::map<std::string, torch::Tensor> tensors;
    for (const auto& item : named) {
      torch::Tensor& tensor = tensors.emplace(item.key(), item.value()).first->second;
      const auto cuts = smaller.cuts.find(item.key());
      if (cuts == smaller.cuts.end()) continue;
      const torch::Tensor gradient = tensor.grad();
      tensor = cut_tensor(tensor, cuts->second).set_requires_grad(tensor.requires_grad());
      if (gradient.defined()) tensor.mutable_grad() = cut_tensor(gradient, cuts->second);
    }
    return tensors;
  };
  GraphModule shrunk(smaller.graph, without_channels(named_parameters()), without_channels(named_buffers()));
  const bool was_training = is_training();
  torch::nn::Module::operator=(shrunk);  // takes up the tensors that it registered
  train(was_training);
  graph_ = std::move(shrunk.graph_);
  steps_ = std::move(shrunk.steps_);
  tensors_ = std::move(shrunk.tensors_);
  plans_ = std::move(shrunk.plans_);
}

void GraphModule::set_tensor_hook(const std::string& name, TensorHook hook) {
  const auto uses = [&](const Node& node) {
    return has_weights(node.op) && std::ranges::find(node.tensors, name) != node.tensors.end();
  };
  if (name.empty() || std::ranges::none_of(graph_.nodes, uses))
    throw Error(ErrorCode::invalid_argument, concat("no conv or linear step uses a tensor '", name, "'"));
  if (hook)
    tensor_hooks_[name] = std::move(hook);
  else
    tensor_hooks_.erase(name);
}

void GraphModule::set_parameter_hook(ValueId step_output, ParameterHook hook) {
  const auto step = std::ranges::find(steps_, step_output, &Step::output);
  const auto has_parameters = [&](const Op& op) { return has_weights(op) || std::holds_alternative<BatchNorm>(op); };
  if (step == steps_.end() || !has_parameters(graph_.nodes[step->node].op))
    throw Error(ErrorCode::invalid_argument,
                concat("value ", step_output, " is not the output of a step with parameters"));
  if (hook)
    parameter_hooks_[step_output] = std::move(hook);
  else
    parameter_hooks_.erase(step_output);
}

void GraphModule::set_value_hook(ValueId value, ValueHook hook) {
  const bool is_input = std::ranges::find(graph_.inputs, value) != graph_.inputs.end();
  if (!is_input && std::ranges::find(steps_, value, &Step::output) == steps_.end())
    throw Error(ErrorCode::invalid_argument,
                concat("value ", value, " is neither an input of the network nor the output of a step"));
  if (hook)
    value_hooks_[value] = std::move(hook);
  else
    value_hooks_.erase(value);
}

void GraphModule::clear_hooks() {
  tensor_hooks_.clear();
  parameter_hooks_.clear();
  value_hooks_.clear();
}

std::shared_ptr<torch::nn::Module> GraphModule::clone(const std::optional<torch::Device>& device) const {
  const auto copies_of = [&](const auto& named) {
    std::map<std::string, torch::Tensor> copies;
    for (const auto& item : named) {
      torch::Tensor copy = item.value().detach().clone();
      if (device) copy = copy.to(*device);
      copies.emplace(item.key(), copy.set_requires_grad(item.value().requires_grad()));
    }
    return copies;
  };
  auto copy = std::make_shared<GraphModule>(graph_, copies_of(named_parameters()), copies_of(named_buffers()));
  copy->train(is_training());
  copy->freeze_batch_norms(batch_norms_frozen_);
  return copy;
}

}  // namespace podaq
