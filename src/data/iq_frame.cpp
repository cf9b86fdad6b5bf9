#include "podaq/data/iq_frame.h"

#include <cmath>

namespace podaq {

void scale_to_unit_power(std::span<float> frame) {
  constexpr double rounding = 1e-5;
  const std::size_t length = frame.size() / 2;
  double energy = 0;
  for (std::size_t i = 0; i < length; ++i) {
    const double real = frame[i];
    const double imaginary = frame[length + i];
    energy += real * real + imaginary * imaginary;
  }
  const double power = energy / static_cast<double>(length);
  if (energy == 0 || std::abs(power - 1) < rounding) return;
  const double scale = 1 / std::sqrt(power);
  for (float& value : frame) value = static_cast<float>(value * scale);
}

std::optional<std::size_t> first_not_finite(std::span<const float> frame) {
  const std::size_t length = frame.size() / 2;
  for (std::size_t i = 0; i < length; ++i) {
    if (!std::isfinite(frame[i]) || !std::isfinite(frame[length + i])) return i;
  }
  return std::nullopt;
}

}  // namespace podaq
