#include "runtime/kernels/weights.h"

#include <algorithm>
#include <cmath>

#include "podaq/numerics/elementwise.h"
#include "podaq/numerics/requantize.h"

namespace podaq::runtime_detail {

namespace {

template <typename Element>
std::vector<Element> copy_of(const Tensor* tensor, std::size_t size_if_absent) {
  if (tensor == nullptr) return std::vector<Element>(size_if_absent);
  const auto source = elements<Element>(*tensor);
  return {source.begin(), source.end()};
}

}  // namespace

std::size_t weight_bytes(const Graph& graph) {
  std::size_t bytes = 0;
  for (const auto& [name, tensor] : graph.tensors) bytes += tensor.bytes.size();
  return bytes;
}

bool are_finite(std::span<const float> weights) {
  return std::all_of(weights.begin(), weights.end(), [](float weight) { return std::isfinite(weight); });
}

std::vector<float> float_weights(const NodeView& view) {
  return numbers_of(*view.tensor(0));
}

std::vector<float> float_bias(const NodeView& view, std::size_t outputs) {
  return view.tensor(1) == nullptr ? std::vector<float>(outputs) : numbers_of(*view.tensor(1));
}

std::vector<std::int8_t> integer_weights(const NodeView& view) {
  return copy_of<std::int8_t>(view.tensor(0), 0);
}

std::vector<std::int32_t> integer_bias(const NodeView& view, std::size_t outputs) {
  return copy_of<std::int32_t>(view.tensor(1), outputs);
}

std::vector<std::int32_t> folded_bias(const NodeView& view, std::span<const std::int8_t> codes, std::size_t outputs) {
  std::vector<std::int32_t> bias = integer_bias(view, outputs);
  const std::size_t columns = codes.size() / outputs;
  for (std::size_t row = 0; row < outputs; ++row) {
    std::int64_t sum = 0;
    for (std::size_t column = 0; column < columns; ++column) sum += codes[row * columns + column];
    const std::int64_t folded = bias[row] - sum * view.input().qparams->zero_point;
    bias[row] = static_cast<std::int32_t>(static_cast<std::uint32_t>(folded));
  }
  return bias;
}

FloatBounds float_bounds(const std::optional<Clamp>& clamp) {
  return clamp ? FloatBounds{.minimum = clamp->minimum, .maximum = clamp->maximum} : FloatBounds{};
}

IntegerEpilogue integer_epilogue(const NodeView& view, bool adds_input, const std::optional<Clamp>& clamp) {
  IntegerEpilogue epilogue{
      .gives_codes = view.gives_codes(), .adds_codes = adds_input, .multipliers = {}, .bounds = float_bounds(clamp)};
  const float input_scale = view.input().qparams->scale;
  const float output_scale = epilogue.gives_codes ? view.output().qparams->scale : 1.0F;
  const Tensor& weight = *view.tensor(0);
  const auto outputs = static_cast<std::size_t>(weight.shape[0]);
  epilogue.multipliers.reserve(outputs);
  for (std::size_t channel = 0; channel < outputs; ++channel) {
    const float weight_scale = weight.scales[weight.scales.size() == 1 ? 0 : channel];
    epilogue.multipliers.push_back(epilogue.gives_codes
                                       ? numerics::requantization_multiplier(input_scale, weight_scale, output_scale)
                                       : numerics::dequantization_multiplier(input_scale, weight_scale));
  }
  if (adds_input) {
    const QParams& added = *view.input(1).qparams;
    epilogue.residual_multiplier =
        epilogue.gives_codes ? numerics::rescaling_multiplier(added.scale, output_scale) : added.scale;
    epilogue.residual_zero_point = added.zero_point;
  }
  // Multipliers beyond these no trained network has.
  constexpr float largest_multiplier = 0.49F;
  constexpr float largest_residual_multiplier = 1048576.0F;
  epilogue.sums_fit = epilogue.gives_codes && epilogue.residual_multiplier <= largest_residual_multiplier &&
                      std::all_of(epilogue.multipliers.begin(), epilogue.multipliers.end(),
                                  [](float multiplier) { return multiplier <= largest_multiplier; });
  if (epilogue.gives_codes) {
    const QParams& output = *view.output().qparams;
    const auto bounds = clamp ? numerics::clamp_codes(output, clamp->minimum, clamp->maximum)
                              : numerics::CodeBounds{.lowest = output.lowest, .highest = output.highest};
    epilogue.zero_point = output.zero_point;
    epilogue.lowest = bounds.lowest;
    epilogue.highest = bounds.highest;
  }
  return epilogue;
}

}  // namespace podaq::runtime_detail
