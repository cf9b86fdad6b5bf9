#include "podaq/quantize/placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <variant>

namespace podaq {
namespace {

template <typename... Ops>
bool is_any_of(const Op& op) {
  return (std::holds_alternative<Ops>(op) || ...);
}

bool has_weights(const Op& op) {
  return is_any_of<Conv, Linear>(op);
}

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

Domains find_domains(const Graph& graph, const std::vector<Step>& steps, const LayerChoice& choose) {
  Domains domains{.step_on_codes = std::vector<bool>(steps.size()),
                  .value_read_as_codes = std::vector<bool>(graph.values.size())};
  for (std::size_t i = steps.size(); i-- > 0;) {
    const Node& node = graph.nodes[steps[i].node];
    const bool on_codes = has_weights(node.op)
                              ? choose(node)
                              : !is_always_float(graph, node) && domains.value_read_as_codes[steps[i].output];
    domains.step_on_codes[i] = on_codes;
    if (!on_codes) continue;
    for (const ValueId value : values_read(graph, steps[i])) domains.value_read_as_codes[value] = true;
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

Placement place_quantizers(const Graph& graph, const std::vector<Step>& steps, const LayerChoice& choose) {
  const Domains domains = find_domains(graph, steps, choose);

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
  return text;
}

}  // namespace podaq
