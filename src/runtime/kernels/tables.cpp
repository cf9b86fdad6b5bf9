#include "runtime/kernels/tables.h"

#include <algorithm>

#include "podaq/numerics/activations.h"
#include "podaq/numerics/elementwise.h"
#include "podaq/numerics/requantize.h"
#include "runtime/kernels/epilogue.h"

namespace podaq::runtime_detail {

CodeTable rescaling_table(const QParams& input, const QParams& output, const Clamp& clamp) {
  const numerics::CodeBounds bounds = numerics::clamp_codes(output, clamp.minimum, clamp.maximum);
  const float multiplier = numerics::rescaling_multiplier(input.scale, output.scale);
  CodeTable table;
  for (int code = 0; code < 256; ++code)
    table[static_cast<std::size_t>(code)] = static_cast<std::uint8_t>(
        input == output ? std::clamp(code, bounds.lowest, bounds.highest)
                        : numerics::rescale_code(code - input.zero_point, multiplier, output.zero_point, bounds));
  return table;
}

CodeTable table_of(const Op& op, const QParams& input, const QParams& output) {
  if (const auto* clamp = std::get_if<Clamp>(&op)) return rescaling_table(input, output, *clamp);
  CodeTable table;
  for (int code = 0; code < 256; ++code)
    table[static_cast<std::size_t>(code)] = numerics::table_entry(code, input, output, [&](float x) {
      if (const auto* affine = std::get_if<Affine>(&op)) return apply(*affine, x);
      return apply(std::get<Activation>(op), x);
    });
  return table;
}

float apply(const Clamp& clamp, float x) {
  return bounded(x, {.minimum = clamp.minimum, .maximum = clamp.maximum});
}

float apply(const Affine& affine, float x) {
  const float product = x * affine.factor;
  return product + affine.offset;
}

float apply(const Activation& activation, float x) {
  return numerics::activate(activation.kind, activation.alpha, x);
}

}  // namespace podaq::runtime_detail
