#include "amc/itu_score.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace podaq::amc {
namespace {

int bits_of(const Tensor& weight) {
  return weight.dtype == DType::s8 ? weight.bits : 32;
}

int bits_of(const Value& value) {
  if (!value.qparams) return 32;
  return std::bit_width(static_cast<std::uint32_t>(value.qparams->highest - value.qparams->lowest));
}

// How often each weight of the layer is used for one sample.
std::int64_t uses_per_weight(const Node& node, const Shape& output) {
  const bool is_conv = std::holds_alternative<Conv>(node.op);
  return element_count(is_conv ? Shape(output.begin() + 1, output.end()) : Shape(output.begin(), output.end() - 1));
}

}  // namespace

ItuCost itu_cost(const Graph& graph) {
  ItuCost cost;
  for (const Node& node : graph.nodes) {
    if (!has_weights(node.op)) continue;
    const Tensor& weight = tensor_at(graph, node.tensors.at(0));
    const std::vector<float> numbers = numbers_of(weight);
    const auto nonzeros = static_cast<double>(std::ssize(numbers) - std::count(numbers.begin(), numbers.end(), 0.0F));
    const double weight_bits = nonzeros * bits_of(weight);
    const auto uses = static_cast<double>(uses_per_weight(node, graph.values[node.output].shape));
    cost.weight_bits += weight_bits;
    cost.bit_operations += weight_bits * uses * bits_of(graph.values[node.inputs.at(0)]);
  }
  return cost;
}

double itu_score(const ItuCost& cost) {
  constexpr double baseline_bit_operations = 807'699'904;
  constexpr double baseline_weight_bits = 1'244'936;
  return 0.5 * cost.bit_operations / baseline_bit_operations + 0.5 * cost.weight_bits / baseline_weight_bits;
}

}  // namespace podaq::amc
