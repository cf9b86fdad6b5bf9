#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>

#include "podaq/graph/tensor.h"

namespace podaq {

/// How far the codes of a tensor go whose step was chosen from what exceeds a threshold.
enum class ThresholdCodes : std::uint8_t {
  verbatim,  ///< As far as they come: more than `bits` bits hold wherever the threshold is above 0.
  clamped,   ///< To +-(2^(bits-1) - 1); larger numbers become the largest code.
};

/// Symmetric quantization of a whole tensor in the manner of Goldbarg et al. (dl_compression, 2022): the step divides
/// what lies between a pruning threshold and the largest magnitude, not between 0 and the latter.
struct ThresholdQuantization {
  int bits = 8;                                     ///< 2 to 16.
  ThresholdCodes codes = ThresholdCodes::verbatim;  ///< How far codes go.
};

/// The step q = (max|w| - threshold) / (2^(bits-1) - 1), over finite weights; where nothing exceeds the threshold,
/// max|w| / (2^(bits-1) - 1). 0 where that is no step: for a tensor without a finite number other than 0, where it
/// would be no normal float with a finite reciprocal, and where verbatim codes would pass 2^22 - 1: all that exceeds
/// the threshold lies so close above it then that rounding would change no more than a float's last bit.
/// @param threshold  at least 0.
[[nodiscard]] float threshold_step(const torch::Tensor& weight, double threshold,
                                   const ThresholdQuantization& quantization);

/// round(w / step) * step, ties to even, at most 2^22 - 1 steps from 0, with gradient 1 everywhere (beyond the codes
/// of `clamped` too). A step of 0 leaves the tensor as it is.
[[nodiscard]] torch::Tensor round_to_step(const torch::Tensor& weight, float step,
                                          const ThresholdQuantization& quantization);

/// The tensor as codes of that step in as few bits (2 to 8) as hold them: s8, one scale. None where more than 8 bits
/// are needed, where the step is 0, and where a number is not finite.
[[nodiscard]] std::optional<Tensor> encode_steps(const torch::Tensor& weight, float step,
                                                 const ThresholdQuantization& quantization);

}  // namespace podaq
