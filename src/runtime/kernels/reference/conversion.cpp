#include "runtime/kernels/conversion.h"

#include "podaq/numerics/quantize.h"
#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/registry.h"

namespace podaq::runtime_detail {

namespace {

Conversion conversion_of(const NodeView& view, const QParams& qparams) {
  return {.channels = channel_count(view.output().shape),
          .positions = position_count(view.output().shape),
          .input = strides_of(view.input().shape, view.input_layout()),
          .output = strides_of(view.output().shape, view.output_layout()),
          .qparams = qparams};
}

}  // namespace

Packed prepare_quantize(const NodeView& view) {
  return conversion_of(view, *view.output().qparams);
}

Packed prepare_dequantize(const NodeView& view) {
  return conversion_of(view, *view.input().qparams);
}

namespace reference {

namespace {

// Calls convert(input offset, output offset) for each element of a sample.
template <typename Convert>
void for_each_element(const Conversion& conversion, Convert convert) {
  for (std::size_t channel = 0; channel < conversion.channels; ++channel)
    for (std::size_t position = 0; position < conversion.positions; ++position)
      convert(channel * conversion.input.channel + position * conversion.input.position,
              channel * conversion.output.channel + position * conversion.output.position);
}

void run_quantize(const Packed& packed, const Operands& operands) {
  const auto& conversion = std::get<Conversion>(packed);
  const std::size_t size = conversion.channels * conversion.positions;
  const QParams& q = conversion.qparams;
  const float inverse_scale = 1.0F / q.scale;
  for (std::size_t sample = 0; sample < operands.batch; ++sample) {
    const float* input = as<float>(operands.inputs[0]) + sample * size;
    std::uint8_t* output = as<std::uint8_t>(operands.output) + sample * size;
    for_each_element(conversion, [&](std::size_t from, std::size_t to) {
      output[to] =
          static_cast<std::uint8_t>(numerics::quantize(input[from], inverse_scale, q.zero_point, q.lowest, q.highest));
    });
  }
}

void run_dequantize(const Packed& packed, const Operands& operands) {
  const auto& conversion = std::get<Conversion>(packed);
  const std::size_t size = conversion.channels * conversion.positions;
  for (std::size_t sample = 0; sample < operands.batch; ++sample) {
    const std::uint8_t* input = as<std::uint8_t>(operands.inputs[0]) + sample * size;
    float* output = as<float>(operands.output) + sample * size;
    for_each_element(conversion, [&](std::size_t from, std::size_t to) {
      output[to] = numerics::dequantize(input[from], conversion.qparams);
    });
  }
}

}  // namespace

const Kernel quantize = {.name = "quantize",
                         .isa = Isa::reference,
                         .accepts = [](const NodeView& view) { return !view.has_codes(); },
                         .prepare = prepare_quantize,
                         .run = run_quantize};
const Kernel dequantize = {.name = "dequantize",
                           .isa = Isa::reference,
                           .accepts = [](const NodeView& view) { return view.has_codes(); },
                           .prepare = prepare_dequantize,
                           .run = run_dequantize};

}  // namespace reference

}  // namespace podaq::runtime_detail
