#include "podaq/quantize/placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <variant>

#include "podaq/core/error.h"
#include "podaq/core/variant.h"

namespace podaq {
namespace {

// A batch norm of its own becomes a depthwise convolution, of which there is none without spatial dimensions.
bool is_always_float(const Graph& graph, const Node& node) {
  const std::size_t rank = graph.values[node.output].shape.size();
  return is_any_of<Softmax>(node.op) || (is_any_of<BatchNorm>(node.op) && (rank < 2 || rank > 3));
}

// The output holds numbers of the input, so it stays under the input's parameters.
bool keeps_parameters(const Op& op) {
  if (const auto* pool = std::get_if<AdaptivePool>(&op)) return pool->kind == AdaptivePool::Kind::max;
  return is_any_of<MaxPool, GlobalMax, Reshape, Dropout, Concat>(op);
}

// For each step whether it works on codes, and for each value whether any such step reads it.
struct Domains {
  std::vector<bool> step_on_codes;
  std::vector<bool> value_read_as_codes;
};

[[noreturn]] void refuse(const Graph& graph, ValueId value, const std::string& problem) {
  throw Error(ErrorCode::invalid_argument, fmt::format("placement: value '{}' {}", graph.values[value].name, problem));
}

void require_possible(const Graph& graph, const std::vector<Step>& steps, const PlacementOverrides& overrides) {
  const std::vector<ValueId> possible = quantizable_values(graph, steps);
  for (const std::set<ValueId>* values : {&overrides.stay_float, &overrides.quantized})
    for (const ValueId value : *values)
      if (std::find(possible.begin(), possible.end(), value) == possible.end())
        refuse(graph, value, "lies inside a step that conversion fuses, where no quantizer can stand");
  for (const ValueId value : overrides.quantized)
    if (overrides.stay_float.contains(value)) refuse(graph, value, "cannot both stay float and be quantized");
}

Domains find_domains(const Graph& graph, const std::vector<Step>& steps, const LayerChoice& choose,
                     const PlacementOverrides& overrides) {
  Domains domains{.step_on_codes = std::vector<bool>(steps.size()),
                  .value_read_as_codes = std::vector<bool>(graph.values.size())};
  for (const ValueId value : overrides.quantized) domains.value_read_as_codes[value] = true;
  for (std::size_t i = steps.size(); i-- > 0;) {
    const Node& node = graph.nodes[steps[i].node];
    const std::vector<ValueId> inputs = values_read(graph, steps[i]);
    const auto kept_float =
        std::find_if(inputs.begin(), inputs.end(), [&](ValueId value) { return overrides.stay_float.contains(value); });
    const bool on_codes = has_weights(node.op) ? choose(node)
                                               : !is_always_float(graph, node) && kept_float == inputs.end() &&
                                                     domains.value_read_as_codes[steps[i].output];
    domains.step_on_codes[i] = on_codes;
    if (!on_codes) continue;
    if (kept_float != inputs.end())
      refuse(graph, *kept_float,
             fmt::format("cannot stay float: layer '{}', which works on codes, reads it; let it be quantized, or keep "
                         "the layer float too",
                         node.name));
    for (const ValueId value : inputs) domains.value_read_as_codes[value] = true;
  }
  return domains;
}

// Sets of values under one quantizer (union-find).
class SharedParameters {
 public:
  explicit SharedParameters(std::size_t values) : parent_(values) { std::iota(parent_.begin(), parent_.end(), 0U); }

  ValueId representative(ValueId value) {
    while (parent_[value] != value) value = parent_[value] = parent_[parent_[value]];
    return value;
  }

  // The lower id represents both, so that numbering does not depend on the order of joins.
  void join(ValueId a, ValueId b) {
    const auto [low, high] = std::minmax({representative(a), representative(b)});
    parent_[high] = low;
  }

 private:
  std::vector<ValueId> parent_;
};

}  // namespace

std::vector<ValueId> values_read(const Graph& graph, const Step& step) {
  std::vector<ValueId> values = graph.nodes[step.node].inputs;
  if (step.residual) values.push_back(*step.residual);
  return values;
}

std::vector<ValueId> quantizable_values(const Graph& graph, const std::vector<Step>& steps) {
  std::vector<ValueId> values = graph.inputs;
  for (const Step& step : steps) values.push_back(step.output);
  return values;
}

Placement place_quantizers(const Graph& graph, const std::vector<Step>& steps, const LayerChoice& choose,
                           const PlacementOverrides& overrides) {
  require_possible(graph, steps, overrides);
  const Domains domains = find_domains(graph, steps, choose, overrides);

  SharedParameters shared(graph.values.size());
  std::vector<bool> holds_codes_already(graph.values.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Node& node = graph.nodes[steps[i].node];
    if (!domains.step_on_codes[i] || !keeps_parameters(node.op)) continue;
    holds_codes_already[steps[i].output] = true;
    for (const ValueId input : node.inputs) shared.join(input, steps[i].output);
  }

  Placement placement{.on_codes = domains.step_on_codes,
                      .quantizer_of = std::vector<std::optional<std::size_t>>(graph.values.size()),
                      .quantizers = {}};
  for (ValueId value = 0; value < graph.values.size(); ++value) {
    if (!domains.value_read_as_codes[value]) continue;
    std::optional<std::size_t>& index = placement.quantizer_of[shared.representative(value)];
    if (!index) {
      index = placement.quantizers.size();
      placement.quantizers.emplace_back();
    }
    placement.quantizer_of[value] = index;
    PlacedQuantizer& quantizer = placement.quantizers[*index];
    quantizer.members.push_back(value);
    if (!holds_codes_already[value]) quantizer.observed.push_back(value);
  }
  return placement;
}

std::string to_text(const Placement& placement, const Graph& graph, const std::vector<Step>& steps) {
  const auto domain_of = [&](ValueId value) {
    const std::optional<std::size_t> index = placement.quantizer_of[value];
    return index ? fmt::format("q{}", *index) : std::string("float");
  };
  std::string text = fmt::format("{:<32} {:<12} {:<7} {:<16} {}\n", "step", "op", "works on", "reads", "writes");
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Node& node = graph.nodes[steps[i].node];
    std::vector<std::string> reads;
    for (const ValueId value : values_read(graph, steps[i])) reads.push_back(domain_of(value));
    text += fmt::format("{:<32} {:<12} {:<8} {:<16} {}\n", node.name, name_of(node.op),
                        placement.on_codes[i] ? "codes" : "float", fmt::join(reads, " "), domain_of(steps[i].output));
  }
  text += fmt::format("\n{:<12} {:<12} {}\n", "quantizer", "bits", "values (* observed and rounded there)");
  for (std::size_t q = 0; q < placement.quantizers.size(); ++q) {
    const PlacedQuantizer& quantizer = placement.quantizers[q];
    std::vector<std::string> names;
    for (const ValueId value : quantizer.members) {
      const bool is_observed =
          std::find(quantizer.observed.begin(), quantizer.observed.end(), value) != quantizer.observed.end();
      names.push_back(graph.values[value].name + (is_observed ? "*" : ""));
    }
    text += fmt::format("q{:<11} {:<12} {}\n", q, quantizer.bits, fmt::join(names, " "));
  }
  return text;
}

}  // namespace podaq
