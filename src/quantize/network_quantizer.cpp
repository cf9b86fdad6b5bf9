#include "podaq/quantize/network_quantizer.h"

#include <atomic>
#include <deque>
#include <utility>
#include <variant>

#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "podaq/quantize/fake_quantize.h"
#include "podaq/quantize/layer_quantizer.h"

namespace podaq {
namespace {

// A step with parameters on codes: conv, linear, or a batch norm that follows neither (a depthwise convolution).
struct QuantizedLayer {
  std::string name;
  ValueId output = 0;
  std::size_t input_quantizer = 0;
  int weight_bits = 8;
};

// A value that passes through a quantizer.
struct ObservedValue {
  std::string name;
  ValueId value = 0;
  std::size_t quantizer = 0;
  ObservedRange range = {};
};

void require_bits(std::string_view field, int bits, int lowest, int highest) {
  if (bits < lowest || bits > highest)
    throw Error(ErrorCode::invalid_argument,
                concat("quantization: ", field, " is ", bits, ", must lie in [", lowest, ", ", highest, "]"));
}

}  // namespace

struct NetworkQuantizer::State {
  Placement placement;
  NetworkQuantizerOptions options;
  std::vector<QuantizedLayer> layers;
  std::vector<ObservedValue> values;
  std::vector<std::optional<QParams>> qparams;  // one per quantizer
  bool observers_frozen = false;
  std::deque<std::atomic<bool>> has_run;  // layers, then values; evaluation may run on several threads

  void update_qparams(std::size_t quantizer) {
    ObservedRange range;
    for (const ObservedValue& observed : values)
      if (observed.quantizer == quantizer) range = unite(range, observed.range);
    if (range.is_observed) qparams[quantizer] = qparams_for(range, options.activation_bits);
  }

  torch::Tensor pass_value(std::size_t index, const torch::Tensor& value, bool training) {
    has_run[layers.size() + index].store(true, std::memory_order_relaxed);
    ObservedValue& observed = values[index];
    if (training && !observers_frozen) {
      observe(observed.range, value, options.observer);
      update_qparams(observed.quantizer);
    }
    const std::optional<QParams>& q = qparams[observed.quantizer];
    return q ? fake_quantize(value, *q) : value;
  }

  LayerParameters pass_parameters(std::size_t index, const LayerParameters& parameters) {
    has_run[index].store(true, std::memory_order_relaxed);
    const QuantizedLayer& layer = layers[index];
    const std::optional<QParams>& input = qparams[layer.input_quantizer];
    return input ? fake_quantize_layer(parameters, layer.weight_bits, *input) : parameters;
  }
};

NetworkQuantizer::NetworkQuantizer(const GraphModule& model, Placement placement, NetworkQuantizerOptions options)
    : state_(std::make_shared<State>()) {
  require_bits("activation_bits", options.activation_bits, 4, 8);
  const Graph& graph = model.graph();
  for (std::size_t i = 0; i < model.steps().size(); ++i) {
    const Step& step = model.steps()[i];
    const Node& node = graph.nodes[step.node];
    const bool is_layer = std::holds_alternative<Conv>(node.op) || std::holds_alternative<Linear>(node.op) ||
                          std::holds_alternative<BatchNorm>(node.op);
    if (!is_layer || !placement.on_codes.at(i)) continue;
    require_bits(concat("weight_bits of '", node.name, "'"), options.weight_bits.at(i), 2, 8);
    state_->layers.push_back({.name = node.name,
                              .output = step.output,
                              .input_quantizer = placement.quantizer_of.at(node.inputs.at(0)).value(),
                              .weight_bits = options.weight_bits[i]});
  }
  for (std::size_t q = 0; q < placement.quantizers.size(); ++q)
    for (const ValueId value : placement.quantizers[q].observed)
      state_->values.push_back({.name = graph.values.at(value).name, .value = value, .quantizer = q});
  state_->qparams.resize(placement.quantizers.size());
  for (std::size_t i = 0; i < state_->layers.size() + state_->values.size(); ++i) state_->has_run.emplace_back(false);
  state_->placement = std::move(placement);
  state_->options = std::move(options);
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
  state_->observers_frozen = frozen;
}

const Placement& NetworkQuantizer::placement() const {
  return state_->placement;
}

int NetworkQuantizer::weight_bits(std::size_t step) const {
  return state_->options.weight_bits.at(step);
}

std::optional<QParams> NetworkQuantizer::qparams(std::size_t quantizer) const {
  return state_->qparams.at(quantizer);
}

std::map<std::string, ObservedRange> NetworkQuantizer::ranges() const {
  std::map<std::string, ObservedRange> ranges;
  for (const ObservedValue& observed : state_->values) ranges.emplace(observed.name, observed.range);
  return ranges;
}

void NetworkQuantizer::set_ranges(const std::map<std::string, ObservedRange>& ranges) {
  std::size_t used = 0;
  for (ObservedValue& observed : state_->values) {
    const auto found = ranges.find(observed.name);
    if (found == ranges.end()) continue;
    observed.range = found->second;
    ++used;
  }
  if (used != ranges.size())
    for (const auto& [name, range] : ranges)
      if (!this->ranges().contains(name))
        throw Error(ErrorCode::invalid_argument, concat("quantization: no observer stands at value '", name, "'"));
  for (std::size_t q = 0; q < state_->qparams.size(); ++q) {
    state_->qparams[q].reset();
    state_->update_qparams(q);
  }
}

std::vector<std::string> NetworkQuantizer::take_idle() {
  std::vector<std::string> idle;
  for (std::size_t i = 0; i < state_->has_run.size(); ++i) {
    if (state_->has_run[i].exchange(false, std::memory_order_relaxed)) continue;
    const bool is_layer = i < state_->layers.size();
    idle.push_back(is_layer ? state_->layers[i].name : state_->values[i - state_->layers.size()].name);
  }
  return idle;
}

}  // namespace podaq
