#include "runtime/kernels/absorption.h"

#include <algorithm>

#include "runtime/kernels/avx512/plane_tasks.h"
#include "runtime/kernels/epilogue.h"

namespace podaq::runtime_detail {

namespace {

bool all_are(const std::vector<std::int64_t>& entries, std::int64_t value) {
  return std::all_of(entries.begin(), entries.end(), [&](std::int64_t entry) { return entry == value; });
}

}  // namespace

std::optional<PoolWindow> pool_to_absorb(const ConvGeometry& g, const IntegerEpilogue& e, const NodeView& reader) {
  const auto* pool = std::get_if<MaxPool>(&reader.node.op);
  if (pool == nullptr || e.adds_codes || !e.gives_codes || !e.sums_fit) return std::nullopt;
  if (reader.input().qparams != reader.output().qparams || reader.output_layout() != Layout::channels_last)
    return std::nullopt;
  if (pool->stride != pool->kernel || !all_are(pool->dilation, 1) || !all_are(pool->pads_begin, 0)) return std::nullopt;
  const PoolWindow window{.height = static_cast<std::size_t>(pool->kernel.size() == 2 ? pool->kernel[0] : 1),
                          .width = static_cast<std::size_t>(pool->kernel.back())};
  // Padding behind the last element may give one window more, which is cut off.
  const Shape& output = reader.output().shape;
  const std::size_t rows = output.size() == 3 ? static_cast<std::size_t>(output[1]) : 1;
  if (rows != g.output_height / window.height) return std::nullopt;
  if (static_cast<std::size_t>(output.back()) != g.output_width / window.width) return std::nullopt;
  return window;
}

bool absorb_quantize(QuadConv& conv, const NodeView& producer, void (*quantize)(const QuantizeTask&)) {
  if (!std::holds_alternative<Quantize>(producer.node.op) || producer.input_layout() != Layout::planar) return false;
  const ConvGeometry& g = conv.geometry;
  if (!conv.plane.is_needed()) conv.plane = {.height = g.input_height, .width = g.input_width};
  conv.quantizes = {.qparams = *producer.output().qparams, .quantize = quantize};
  conv.input_is_planar = false;
  return true;
}

const std::uint8_t* readable_input(const QuadConv& conv, const std::byte* input, std::size_t sample,
                                   std::uint8_t* plane, std::uint8_t* transposed) {
  const ConvGeometry& g = conv.geometry;
  const std::size_t offset = sample * g.input_channels * g.input_positions();
  if (conv.quantizes) {
    quantize_with_borders(g, conv.plane, conv.quantizes->qparams, conv.quantizes->quantize, as<float>(input) + offset,
                          plane);
    return plane;
  }
  const std::uint8_t* codes = as<std::uint8_t>(input) + offset;
  if (conv.input_is_planar) {
    avx512::transpose_codes(
        {.input = codes, .output = transposed, .rows = g.input_channels, .columns = g.input_positions()});
    codes = transposed;
  }
  if (!conv.plane.is_needed()) return codes;
  copy_with_borders(g, conv.plane, conv.input_zero_point, codes, plane);
  return plane;
}

const std::uint8_t* readable_residual(const QuadConv& conv, const Operands& operands, std::size_t sample,
                                      std::uint8_t* transposed) {
  if (!conv.epilogue.adds_codes) return nullptr;
  const ConvGeometry& g = conv.geometry;
  const std::uint8_t* codes = as<std::uint8_t>(operands.inputs[1]) + sample * g.output_channels * g.output_positions();
  if (!conv.residual_is_planar) return codes;
  avx512::transpose_codes(
      {.input = codes, .output = transposed, .rows = g.output_channels, .columns = g.output_positions()});
  return transposed;
}

}  // namespace podaq::runtime_detail
