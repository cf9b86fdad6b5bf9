#include "amc/itu_score.h"

#include <bit>
#include <cstdint>

namespace podaq::amc {
namespace {

int bits_of(const Tensor& weight) {
  return weight.dtype == DType::s8 ? weight.bits : 32;
}

int bits_of(const Value& value) {
  if (!value.qparams) return 32;
  return std::bit_width(static_cast<std::uint32_t>(value.qparams->highest - value.qparams->lowest));
}

}  // namespace

ItuCost itu_cost(const Graph& graph) {
  ItuCost cost;
  for (const Node& node : graph.nodes) {
    if (!has_weights(node.op)) continue;
    const Tensor& weight = tensor_at(graph, node.tensors.at(0));
    const double weight_bits = static_cast<double>(count_nonzeros(weight)) * bits_of(weight);
    const auto uses_per_weight =
        static_cast<double>(macs_of(graph, node)) / static_cast<double>(element_count(weight.shape));
    cost.weight_bits += weight_bits;
    cost.bit_operations += weight_bits * uses_per_weight * bits_of(graph.values[node.inputs.at(0)]);
  }
  return cost;
}

double itu_score(const ItuCost& cost) {
  constexpr double baseline_bit_operations = 807'699'904;
  constexpr double baseline_weight_bits = 1'244'936;
  return 0.5 * cost.bit_operations / baseline_bit_operations + 0.5 * cost.weight_bits / baseline_weight_bits;
}

}  // namespace podaq::amc
