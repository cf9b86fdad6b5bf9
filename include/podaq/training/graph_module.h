#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "podaq/graph/channel_groups.h"
#include "podaq/graph/graph.h"
#include "podaq/graph/steps.h"

namespace podaq {

/// Weight and bias as a conv or linear step is about to use them.
struct LayerParameters {
  torch::Tensor weight;       ///< Of the conv's or linear's own shape.
  torch::Tensor bias;         ///< Undefined where the step has none.
  bool bias_is_final = true;  ///< False while a batch norm with batch statistics still follows.
  torch::Tensor factor = {};  ///< What a folded batch norm multiplied each channel with; undefined where none was.
};

/// Changes a step's parameters in the forward pass (fake quantization). Must be differentiable.
using ParameterHook = std::function<LayerParameters(const LayerParameters&)>;

/// Changes a weight or bias in the forward pass, before anything else is done to it. Must keep the shape and be
/// differentiable.
using TensorHook = std::function<torch::Tensor(const torch::Tensor&)>;

/// Changes a value in the forward pass (fake quantization, observation). Must keep the shape and be differentiable.
/// `training` is the module's own flag.
using ValueHook = std::function<torch::Tensor(const torch::Tensor& value, bool training)>;

/// A captured network: a Graph whose float tensors are torch parameters and buffers under the module's own names
/// ("features.0.weight"), shared with the captured module. It runs with LibTorch's operations under autograd, step by
/// step (see find_steps), with hooks that pruning and quantization fill. 1-D convolutions run as channels-last 2-D
/// ones.
///
/// With hooks set, a conv + batch norm step in training mode computes batch_norm(conv(x, hook(W))) with batch
/// statistics; in eval mode, or once the batch norms are frozen, it computes conv(x, W') + b' with the batch norm
/// folded into W', b' and the hook applied to the folded pair, exactly as conversion does. Both are finite for a
/// batch-norm weight of 0.
class GraphModule : public torch::nn::Module {
 public:
  /// `graph` holds no data; `parameters` and `buffers` hold a tensor for each name that its nodes use (shared, not
  /// copied). Throws Error(graph) naming a missing tensor or one of another shape.
  GraphModule(Graph graph, const std::map<std::string, torch::Tensor>& parameters,
              const std::map<std::string, torch::Tensor>& buffers);

  /// Runs a network of one input and one output. Shapes: [batch, ...] as captured, any batch size.
  torch::Tensor forward(const torch::Tensor& input);
  /// Runs a network of several inputs and outputs, in the captured order.
  std::vector<torch::Tensor> forward(const std::vector<torch::Tensor>& inputs);

  /// The structure: no data, every tensor's shape.
  [[nodiscard]] const Graph& graph() const { return graph_; }
  /// The steps that it runs, as find_steps gives them.
  [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }

  /// The parameter or buffer of that name; throws Error(invalid_argument) naming it if there is none.
  [[nodiscard]] torch::Tensor tensor(const std::string& name) const;

  /// What a conv or linear step computes with in eval mode, without any hook: its parameters with the batch norm, if it
  /// has one, folded in at its running statistics. Differentiable.
  [[nodiscard]] LayerParameters folded_parameters(const Step& step) const;

  /// A float graph with the present values of all parameters and buffers copied into it.
  [[nodiscard]] Graph snapshot() const;

  /// Becomes the smaller network that `remove_channels` made of graph(): parameters and buffers that lost channels are
  /// replaced by tensors of its own under the same names, with their gradients; the captured module keeps the old ones.
  /// Values, hooks and flags stay. Throws Error(graph) where `smaller` comes of another graph; nothing has changed
  /// then. An optimizer must follow (see prune/channel_removal.h).
  void remove_channels(const SmallerGraph& smaller);

  /// Conv and linear steps use what this hook makes of the tensor of that name where it is their weight or bias, and
  /// fold batch norms into that; an empty function removes it. Throws Error(invalid_argument) where no step does.
  void set_tensor_hook(const std::string& name, TensorHook hook);
  /// The step whose output is `value` gets this hook on its parameters; an empty function removes it.
  void set_parameter_hook(ValueId step_output, ParameterHook hook);
  /// `value` (an input of the graph or a step's output) passes through this hook; an empty function removes it.
  void set_value_hook(ValueId value, ValueHook hook);
  /// Removes all hooks.
  void clear_hooks();
  /// Whether it has any hook.
  [[nodiscard]] bool has_hooks() const {
    return !tensor_hooks_.empty() || !parameter_hooks_.empty() || !value_hooks_.empty();
  }

  /// From now on batch norms use their running statistics, folded, in training mode too, and the statistics stay as
  /// they are; their weight and bias go on learning. Survives train() and eval().
  void freeze_batch_norms(bool frozen = true) { batch_norms_frozen_ = frozen; }
  /// Whether batch norms use their running statistics in training mode too.
  [[nodiscard]] bool batch_norms_frozen() const { return batch_norms_frozen_; }

  /// What dropout draws from; empty (the default): LibTorch's default generator of the device, which all threads
  /// share, so that networks trained side by side need their own to give the same result every time. The generator must
  /// be of the network's device. Checkpoints hold the state of the default one, not of this.
  void set_generator(std::optional<at::Generator> generator) { generator_ = std::move(generator); }
  /// What dropout draws from, if it is not LibTorch's default generator.
  [[nodiscard]] const std::optional<at::Generator>& generator() const { return generator_; }

  /// A deep copy with its own parameters and buffers, the same flags, no hooks and the default generator.
  [[nodiscard]] std::shared_ptr<torch::nn::Module> clone(
      const std::optional<torch::Device>& device = std::nullopt) const override;

 private:
  /// What the forward pass knows beforehand about the node of the same index.
  struct NodePlan {
    std::vector<torch::Tensor> tensors;      ///< In the node's order; undefined where absent.
    std::optional<std::size_t> starts_step;  ///< The step that begins here.
    bool folds_away = false;                 ///< A batch norm that its step's conv or linear can take over.
    std::optional<std::size_t> owned_input;  ///< The input whose memory nobody else needs.
    std::vector<ValueId> last_uses;          ///< Values that no later node reads.
  };

  void register_tensors(const std::map<std::string, torch::Tensor>& parameters,
                        const std::map<std::string, torch::Tensor>& buffers);
  void plan_nodes();
  [[nodiscard]] bool statistics_are_fixed() const { return !is_training() || batch_norms_frozen_; }
  [[nodiscard]] torch::Tensor checked_input(std::size_t index, const torch::Tensor& input) const;
  [[nodiscard]] torch::Tensor run(std::size_t node, const std::vector<torch::Tensor>& values) const;
  [[nodiscard]] torch::Tensor run_batch_norm(std::size_t node, const torch::Tensor& input) const;
  [[nodiscard]] LayerParameters own_parameters(const Step& step, bool with_hooks) const;
  [[nodiscard]] LayerParameters with_batch_norm(const Step& step, const LayerParameters& parameters) const;
  [[nodiscard]] LayerParameters parameters_of_step(const Step& step) const;
  [[nodiscard]] torch::Tensor with_hook(ValueId value, const torch::Tensor& tensor) const;

  Graph graph_;
  std::vector<Step> steps_;
  std::map<std::string, torch::Tensor> tensors_;
  std::vector<NodePlan> plans_;
  std::map<std::string, TensorHook> tensor_hooks_;
  std::map<ValueId, ParameterHook> parameter_hooks_;
  std::map<ValueId, ValueHook> value_hooks_;
  std::optional<at::Generator> generator_;
  bool batch_norms_frozen_ = false;
};

}  // namespace podaq
