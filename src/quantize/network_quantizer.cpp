#include "podaq/quantize/network_quantizer.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <utility>
#include <variant>

#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "podaq/quantize/fake_quantize.h"
#include "podaq/quantize/layer_quantizer.h"
#include "podaq/training/tensor_cut.h"

namespace podaq {
namespace {

// A step with parameters on codes: conv, linear, or a batch norm that follows neither (a depthwise convolution).
struct QuantizedLayer {
  std::string name;
  std::string weight_name;
  std::size_t step = 0;
  bool is_norm = false;  // a batch norm of its own: is not quantized while it takes statistics of the batch
  ValueId output = 0;
  std::size_t input_quantizer = 0;
  WeightQuantization weight = {};
  std::int64_t scales = 0;  // channels, or 1
  LearnedSteps learned = {};
};

// A value that passes through a quantizer.
struct ObservedValue {
  std::string name;
  ValueId value = 0;
  std::size_t quantizer = 0;
  ObserverOptions observer = {};
  ObservedRange range = {};
};

// What values under one set of parameters share.
struct ActivationQuantizer {
  int bits = 8;
  bool may_learn = false;
  std::optional<QParams> qparams = {};
  LearnedSteps learned = {};
};

void require_bits(std::string_view field, int bits, int lowest, int highest) {
  if (bits < lowest || bits > highest)
    throw Error(ErrorCode::invalid_argument,
                concat("quantization: ", field, " is ", bits, ", must lie in [", lowest, ", ", highest, "]"));
}

[[noreturn]] void refuse_state(std::string_view problem, const std::string& name) {
  throw Error(ErrorCode::invalid_argument, concat("quantization: ", problem, " '", name, "'"));
}

void remove_channels_of(QuantizedLayer& layer, const TensorCut& outputs) {
  layer.scales = std::ssize(outputs.kept);
  if (!layer.learned.steps.defined()) return;
  const std::span cuts(&outputs, 1);
  const torch::Tensor gradient = layer.learned.steps.grad();
  layer.learned = {.steps = cut_tensor(layer.learned.steps, cuts).set_requires_grad(true),
                   .momentum = cut_tensor(layer.learned.momentum, cuts)};
  if (gradient.defined()) layer.learned.steps.mutable_grad() = cut_tensor(gradient, cuts);
}

LearnedSteps copy_of(const LearnedSteps& learned) {
  if (!learned.steps.defined()) return {};
  LearnedSteps copy{.steps = learned.steps.detach().clone(), .momentum = learned.momentum.clone()};
  copy.steps.set_requires_grad(true);
  if (learned.steps.grad().defined()) copy.steps.mutable_grad() = learned.steps.grad().clone();
  return copy;
}

torch::Tensor learning_steps(const LearnedSteps& learned, bool frozen) {
  return frozen && learned.steps.defined() ? learned.steps.detach() : learned.steps;
}

}  // namespace

struct NetworkQuantizer::State {
  Placement placement;
  NetworkQuantizerOptions options;
  std::vector<QuantizedLayer> layers;
  std::vector<ObservedValue> values;
  std::vector<ActivationQuantizer> quantizers;
  bool observers_frozen = false;
  bool only_observes = false;
  std::deque<std::atomic<bool>> has_run;  // layers, then values; evaluation may run on several threads

  // A learned step takes over the scale; the zero point stays what the ranges say, which no longer move then.
  void update_qparams(std::size_t index) {
    ObservedRange range;
    for (const ObservedValue& observed : values)
      if (observed.quantizer == index) range = unite(range, observed.range);
    ActivationQuantizer& quantizer = quantizers[index];
    quantizer.qparams = range.is_observed ? std::optional(qparams_for(range, quantizer.bits)) : std::nullopt;
    if (quantizer.qparams && quantizer.learned.steps.defined())
      quantizer.qparams->scale = values_of(quantizer.learned)[0];
  }

  void settle_ranges() {
    for (ObservedValue& observed : values)
      if (!quantizers[observed.quantizer].learned.steps.defined())
        settle(observed.range, observed.observer, quantizers[observed.quantizer].bits);
    for (std::size_t q = 0; q < quantizers.size(); ++q) update_qparams(q);
  }

  torch::Tensor pass_value(std::size_t index, const torch::Tensor& value, bool training) {
    has_run[layers.size() + index].store(true, std::memory_order_relaxed);
    ObservedValue& observed = values[index];
    ActivationQuantizer& quantizer = quantizers[observed.quantizer];
    const bool has_learned = quantizer.learned.steps.defined();
    if (!has_learned && ((training && !observers_frozen) || only_observes)) {
      observe(observed.range, value, observed.observer, quantizer.bits);
      update_qparams(observed.quantizer);
    }
    if (only_observes || !quantizer.qparams) return value;
    if (!has_learned || !training || observers_frozen) return fake_quantize(value, *quantizer.qparams);
    const QParams& q = *quantizer.qparams;
    const std::int64_t elements = value.numel() / std::max<std::int64_t>(value.size(0), 1);
    return fake_quantize_learned(value, quantizer.learned.steps, q,
                                 step_gradient_factor(elements, q.highest - q.zero_point));
  }

  LayerParameters pass_parameters(std::size_t index, const LayerParameters& parameters) {
    has_run[index].store(true, std::memory_order_relaxed);
    return only_observes ? parameters : round_parameters(layers[index], parameters);
  }

  [[nodiscard]] LayerParameters round_parameters(const QuantizedLayer& layer, const LayerParameters& parameters) const {
    const std::optional<QParams>& input = quantizers[layer.input_quantizer].qparams;
    if (!input) return parameters;
    return fake_quantize_layer(parameters, layer.weight, *input, learning_steps(layer.learned, observers_frozen));
  }

  // Steps for the channels (or the tensor) of `layer` that have none yet and are not all zeros.
  void begin_weight_steps(QuantizedLayer& layer, const GraphModule& model) const {
    const Step& step = model.steps()[layer.step];
    const bool is_shared = layer.weight.granularity == WeightGranularity::tensor;
    if (is_shared && step.batch_norm && !model.batch_norms_frozen()) return;  // its folded weight still moves by itself
    const std::span<const float> present = values_of(layer.learned);
    if (!present.empty() && std::find(present.begin(), present.end(), 0.0F) == present.end()) return;

    const torch::NoGradGuard no_grad;
    const torch::Tensor source =
        is_shared ? model.folded_parameters(step).weight : model.tensor(model.graph().nodes[step.node].tensors.at(0));
    const torch::Tensor weight = source.detach().to(torch::kCPU, torch::kFloat).contiguous();
    const auto count = static_cast<std::size_t>(layer.scales);
    const std::size_t elements = count == 0 ? 0 : static_cast<std::size_t>(weight.numel()) / count;
    if (present.empty()) layer.learned = begin_steps(std::vector<float>(count, 0.0F));
    auto* steps = layer.learned.steps.data_ptr<float>();
    for (std::size_t i = 0; i < count; ++i)
      if (steps[i] == 0.0F)
        steps[i] = least_squares_scale({weight.const_data_ptr<float>() + i * elements, elements}, layer.weight.bits);
  }

  void begin_activation_step(std::size_t index) {
    ActivationQuantizer& quantizer = quantizers[index];
    if (quantizer.learned.steps.defined() || !quantizer.qparams) return;
    const bool has_width = std::ranges::any_of(values, [&](const ObservedValue& observed) {
      return observed.quantizer == index && (observed.range.minimum < 0 || observed.range.maximum > 0);
    });
    if (has_width) quantizer.learned = begin_steps(std::span(&quantizer.qparams->scale, 1));
  }

  [[nodiscard]] const std::string& first_value_of(std::size_t quantizer) const {
    return std::ranges::find(values, quantizer, &ObservedValue::quantizer)->name;
  }
};

NetworkQuantizer::NetworkQuantizer(const GraphModule& model, Placement placement, NetworkQuantizerOptions options)
    : state_(std::make_shared<State>()) {
  const Graph& graph = model.graph();
  validate(options.observer);
  if (!(options.step_learning_rate >= 0 && options.step_learning_rate <= 1000))
    throw Error(ErrorCode::invalid_argument,
                concat("quantization: step_learning_rate is ", options.step_learning_rate, ", must lie in [0, 1000]"));
  for (std::size_t i = 0; i < model.steps().size(); ++i) {
    const Step& step = model.steps()[i];
    const Node& node = graph.nodes[step.node];
    const bool is_norm = std::holds_alternative<BatchNorm>(node.op);
    if (!(has_weights(node.op) || is_norm) || !placement.on_codes.at(i)) continue;
    const WeightQuantization& weight = options.weights.at(i);
    require_bits(concat("weight bits of '", node.name, "'"), weight.bits, 2, 8);
    state_->layers.push_back({.name = node.name,
                              .weight_name = node.tensors.at(0),
                              .step = i,
                              .is_norm = is_norm,
                              .output = step.output,
                              .input_quantizer = placement.quantizer_of.at(node.inputs.at(0)).value(),
                              .weight = is_norm ? WeightQuantization{.bits = weight.bits} : weight,
                              .scales = is_norm || weight.granularity == WeightGranularity::tensor
                                            ? 1
                                            : tensor_at(graph, node.tensors.at(0)).shape.at(0)});
  }
  std::size_t fixed = 0;
  for (std::size_t q = 0; q < placement.quantizers.size(); ++q) {
    const PlacedQuantizer& placed = placement.quantizers[q];
    ActivationQuantizer quantizer{.bits = placed.bits, .may_learn = options.learns_activation_steps};
    for (const ValueId value : placed.observed) {
      const std::string& name = graph.values.at(value).name;
      require_bits(concat("activation bits of '", name, "'"), placed.bits, 4, 8);
      ObservedValue observed{.name = name, .value = value, .quantizer = q, .observer = options.observer};
      if (const auto range = options.fixed_ranges.find(name); range != options.fixed_ranges.end()) {
        observed.observer = range->second;
        validate(observed.observer);
        quantizer.may_learn = false;
        ++fixed;
      }
      observed.range = initial_range(observed.observer);
      state_->values.push_back(std::move(observed));
    }
    state_->quantizers.push_back(std::move(quantizer));
  }
  if (fixed != options.fixed_ranges.size())
    for (const auto& [name, range] : options.fixed_ranges)
      if (std::ranges::find(state_->values, name, &ObservedValue::name) == state_->values.end())
        refuse_state("a range is fixed for a value that no quantizer observes:", name);
  for (std::size_t i = 0; i < state_->layers.size() + state_->values.size(); ++i) state_->has_run.emplace_back(false);
  state_->placement = std::move(placement);
  state_->options = std::move(options);
  for (std::size_t q = 0; q < state_->quantizers.size(); ++q) state_->update_qparams(q);
}

void NetworkQuantizer::enable(GraphModule& model) const {
  for (std::size_t i = 0; i < state_->layers.size(); ++i)
    model.set_parameter_hook(state_->layers[i].output, [state = state_, i](const LayerParameters& parameters) {
      return state->pass_parameters(i, parameters);
    });
  for (std::size_t i = 0; i < state_->values.size(); ++i)
    model.set_value_hook(state_->values[i].value, [state = state_, i](const torch::Tensor& value, bool training) {
      return state->pass_value(i, value, training);
    });
}

void NetworkQuantizer::disable(GraphModule& model) const {
  for (const QuantizedLayer& layer : state_->layers) model.set_parameter_hook(layer.output, {});
  for (const ObservedValue& observed : state_->values) model.set_value_hook(observed.value, {});
}

void NetworkQuantizer::freeze_observers(bool frozen) {
  if (frozen && !state_->observers_frozen) state_->settle_ranges();
  state_->observers_frozen = frozen;
}

void NetworkQuantizer::observe_only(bool on) {
  if (state_->only_observes && !on) state_->settle_ranges();
  state_->only_observes = on;
}

void NetworkQuantizer::learn_steps(const GraphModule& model) {
  if (state_->observers_frozen) return;
  for (std::size_t q = 0; q < state_->quantizers.size(); ++q) {
    ActivationQuantizer& quantizer = state_->quantizers[q];
    if (!quantizer.may_learn) continue;
    descend(quantizer.learned, state_->options.step_learning_rate);
    state_->begin_activation_step(q);
    if (quantizer.learned.steps.defined()) quantizer.qparams->scale = values_of(quantizer.learned)[0];
  }
  for (QuantizedLayer& layer : state_->layers) {
    if (layer.weight.scale != WeightScale::learned) continue;
    descend(layer.learned, state_->options.step_learning_rate);
    state_->begin_weight_steps(layer, model);
  }
}

const Placement& NetworkQuantizer::placement() const {
  return state_->placement;
}

WeightQuantization NetworkQuantizer::weight_quantization(std::size_t step) const {
  const auto layer = std::ranges::find(state_->layers, step, &QuantizedLayer::step);
  return layer == state_->layers.end() ? state_->options.weights.at(step) : layer->weight;
}

std::vector<float> NetworkQuantizer::weight_steps(std::size_t step) const {
  const auto layer = std::ranges::find(state_->layers, step, &QuantizedLayer::step);
  if (layer == state_->layers.end()) return {};
  const std::span<const float> steps = values_of(layer->learned);
  return {steps.begin(), steps.end()};
}

std::optional<QParams> NetworkQuantizer::qparams(std::size_t quantizer) const {
  return state_->quantizers.at(quantizer).qparams;
}

torch::Tensor NetworkQuantizer::rounded(ValueId value, const torch::Tensor& tensor) const {
  const auto observed = std::ranges::find(state_->values, value, &ObservedValue::value);
  if (observed == state_->values.end()) return tensor;
  const std::optional<QParams>& q = state_->quantizers[observed->quantizer].qparams;
  return q ? fake_quantize(tensor, *q) : tensor;
}

LayerParameters NetworkQuantizer::rounded(std::size_t step, const LayerParameters& parameters) const {
  const auto layer = std::ranges::find(state_->layers, step, &QuantizedLayer::step);
  return layer == state_->layers.end() ? parameters : state_->round_parameters(*layer, parameters);
}

std::vector<float> NetworkQuantizer::weight_scales(std::size_t step, const LayerParameters& parameters) const {
  const auto layer = std::ranges::find(state_->layers, step, &QuantizedLayer::step);
  if (layer == state_->layers.end()) return {};
  const std::optional<QParams>& input = state_->quantizers[layer->input_quantizer].qparams;
  if (!input) return {};
  return layer_scales(parameters, layer->weight, *input, learning_steps(layer->learned, /*frozen=*/true));
}

std::map<std::string, ObservedRange> NetworkQuantizer::ranges() const {
  std::map<std::string, ObservedRange> ranges;
  for (const ObservedValue& observed : state_->values) ranges.emplace(observed.name, observed.range);
  return ranges;
}

QuantizerState NetworkQuantizer::state() const {
  QuantizerState copy{.ranges = ranges(), .weight_steps = {}, .activation_steps = {}};
  for (const QuantizedLayer& layer : state_->layers)
    if (layer.weight.scale == WeightScale::learned) copy.weight_steps.emplace(layer.name, copy_of(layer.learned));
  for (std::size_t q = 0; q < state_->quantizers.size(); ++q)
    if (state_->quantizers[q].may_learn)
      copy.activation_steps.emplace(state_->first_value_of(q), copy_of(state_->quantizers[q].learned));
  return copy;
}

void NetworkQuantizer::require_fitting(const QuantizerState& state) const {
  const QuantizerState own = this->state();
  const auto require_same_names = [](const auto& saved, const auto& known, std::string_view what) {
    for (const auto& [name, content] : saved)
      if (!known.contains(name)) refuse_state(concat("the state holds ", what, " that has no place here:"), name);
    for (const auto& [name, content] : known)
      if (!saved.contains(name)) refuse_state(concat("the state lacks ", what), name);
  };
  require_same_names(state.ranges, own.ranges, "the range of value");
  require_same_names(state.weight_steps, own.weight_steps, "the learned steps of layer");
  require_same_names(state.activation_steps, own.activation_steps, "the learned step of value");
  const auto require_count = [](const LearnedSteps& saved, std::int64_t count, const std::string& name) {
    if (saved.steps.defined() && (saved.steps.numel() != count || saved.momentum.numel() != count))
      refuse_state(concat("the state does not hold ", count, " learned steps for"), name);
  };
  for (const QuantizedLayer& layer : state_->layers)
    if (const auto found = state.weight_steps.find(layer.name); found != state.weight_steps.end())
      require_count(found->second, layer.scales, layer.name);
  for (const auto& [name, learned] : state.activation_steps) require_count(learned, 1, name);
}

void NetworkQuantizer::set_state(const QuantizerState& state) {
  require_fitting(state);
  for (ObservedValue& observed : state_->values) observed.range = state.ranges.at(observed.name);
  for (QuantizedLayer& layer : state_->layers)
    if (layer.weight.scale == WeightScale::learned) layer.learned = copy_of(state.weight_steps.at(layer.name));
  for (std::size_t q = 0; q < state_->quantizers.size(); ++q) {
    ActivationQuantizer& quantizer = state_->quantizers[q];
    if (quantizer.may_learn) quantizer.learned = copy_of(state.activation_steps.at(state_->first_value_of(q)));
    state_->update_qparams(q);
  }
}

void NetworkQuantizer::remove_channels(const SmallerGraph& smaller) {
  for (QuantizedLayer& layer : state_->layers) {
    const auto cuts = smaller.cuts.find(layer.weight_name);
    if (cuts == smaller.cuts.end() || layer.scales == 1) continue;  // one scale for all of them stays
    for (const TensorCut& cut : cuts->second)
      if (cut.dimension == 0) remove_channels_of(layer, cut);
  }
}

std::vector<std::string> NetworkQuantizer::take_idle() {
  std::vector<std::string> idle;
  for (std::size_t i = 0; i < state_->has_run.size(); ++i) {
    if (state_->has_run[i].exchange(false, std::memory_order_relaxed)) continue;
    const bool is_layer = i < state_->layers.size();
    if (is_layer && state_->layers[i].is_norm) continue;
    idle.push_back(is_layer ? state_->layers[i].name : state_->values[i - state_->layers.size()].name);
  }
  return idle;
}

}  // namespace podaq
