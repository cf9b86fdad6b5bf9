#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace podaq {

/// A frame of complex samples as networks take it: shape {2, L}, first all in-phase, then all quadrature samples.
/// Scales it to a mean power |x|² of 1. Training and inference both do so, whatever a frame comes from. A frame of
/// zeros stays as it is, and so does one whose power differs from 1 by less than 1e-5, so that scaling twice changes
/// nothing.
void scale_to_unit_power(std::span<float> frame);

/// The first complex sample of a frame of shape {2, L} that is NaN or infinite in either part.
[[nodiscard]] std::optional<std::size_t> first_not_finite(std::span<const float> frame);

}  // namespace podaq
