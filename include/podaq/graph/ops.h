#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "podaq/core/variant.h"
#include "podaq/graph/tensor.h"
#include "podaq/numerics/activations.h"

namespace podaq {

// Each op says what its node's inputs (values) and tensors (constants, by name) are. An empty tensor name means
// "absent". Shapes are per sample: C channels, then one (1-D) or two (2-D) spatial dimensions.
//
// Float conv and linear: the accumulator starts at 0; products are added one by one, each product and each sum rounded
// to float, in index order (input channel of the group, then taps row-major; padded taps are skipped); then the bias,
// then the added input, then the clamp. Their weights and biases may be s8 codes with scales: each stands for code *
// scale, rounded to float. On codes the bias holds the rounded bias alone: the correction for the input's zero point is
// the runtime's business.

/// y = min(max(x, minimum), maximum). ReLU is Clamp{0, infinity}; NaN stays NaN in float.
struct Clamp {
  float minimum = -std::numeric_limits<float>::infinity();  ///< Lower bound; -infinity: none.
  float maximum = std::numeric_limits<float>::infinity();   ///< Upper bound; infinity: none.
  friend bool operator==(const Clamp&, const Clamp&) = default;
};

/// Convolution, 1-D or 2-D by the number of spatial dimensions. Inputs: x {C, ...}, and with `adds_input` a second
/// value of the output's shape that is added before the clamp. Tensors: weight {K, C/groups, taps...}, bias {K} or
/// absent.
struct Conv {
  std::vector<std::int64_t> stride;      ///< One entry per spatial dimension, as in the next three.
  std::vector<std::int64_t> pads_begin;  ///< Zeros before the first element.
  std::vector<std::int64_t> pads_end;    ///< Zeros after the last.
  std::vector<std::int64_t> dilation;    ///< Distance of two taps.
  std::int64_t groups = 1;               ///< Each group of output channels reads C/groups input channels.
  bool adds_input = false;               ///< Whether a second input is added before the clamp.
  std::optional<Clamp> clamp;            ///< Applied last.
  friend bool operator==(const Conv&, const Conv&) = default;
};

/// y = x W^T + b over the last dimension. Inputs: x {..., in} (and the added value, see Conv). Tensors: weight {out,
/// in}, bias {out} or absent.
struct Linear {
  bool adds_input = false;     ///< Whether a second input is added before the clamp.
  std::optional<Clamp> clamp;  ///< Applied last.
  friend bool operator==(const Linear&, const Linear&) = default;
};

/// y = (x - mean) / sqrt(variance + epsilon) * weight + bias per channel (dimension 0). Tensors: weight, bias (either
/// may be absent), running_mean, running_var, and num_batches_tracked (i32 of shape {}; absent where the module has
/// none).
struct BatchNorm {
  double epsilon = 1e-5;                 ///< Keeps the square root from 0.
  std::optional<double> momentum = 0.1;  ///< None: cumulative average.
  friend bool operator==(const BatchNorm&, const BatchNorm&) = default;
};

/// Largest element of each window; padding never wins, so pads are smaller than the window. `pads_end` may exceed
/// `pads_begin` (a module's ceil mode).
struct MaxPool {
  std::vector<std::int64_t> kernel;      ///< Taps; one entry per spatial dimension, as in the next four.
  std::vector<std::int64_t> stride;      ///< Distance of two windows.
  std::vector<std::int64_t> pads_begin;  ///< Padding before the first element.
  std::vector<std::int64_t> pads_end;    ///< Padding after the last.
  std::vector<std::int64_t> dilation;    ///< Distance of two taps.
  friend bool operator==(const MaxPool&, const MaxPool&) = default;
};

/// Mean of each window, its row-major sum divided by the count. Padding counts as zeros when `count_padding`, else it
/// is left out of the count.
struct AvgPool {
  std::vector<std::int64_t> kernel;      ///< Taps; one entry per spatial dimension, as in the next three.
  std::vector<std::int64_t> stride;      ///< Distance of two windows.
  std::vector<std::int64_t> pads_begin;  ///< Padding before the first element.
  std::vector<std::int64_t> pads_end;    ///< Padding after the last.
  bool count_padding = true;             ///< Whether padding counts.
  friend bool operator==(const AvgPool&, const AvgPool&) = default;
};

/// Pooling to a fixed output size: window i spans [floor(i*in/out), ceil((i+1)*in/out)).
struct AdaptivePool {
  /// What is taken of a window.
  enum class Kind : std::uint8_t { max, mean };
  Kind kind = Kind::mean;                 ///< What is taken of a window.
  std::vector<std::int64_t> output_size;  ///< One entry per spatial dimension.
  friend bool operator==(const AdaptivePool&, const AdaptivePool&) = default;
};

/// Mean over all spatial dimensions, their row-major sum divided by the count: {C, ...} -> {C}.
struct GlobalMean {
  friend bool operator==(const GlobalMean&, const GlobalMean&) = default;
};

/// Largest element over all spatial dimensions: {C, ...} -> {C}.
struct GlobalMax {
  friend bool operator==(const GlobalMax&, const GlobalMax&) = default;
};

/// y = a + b, equal shapes.
struct Add {
  std::optional<Clamp> clamp;  ///< Applied last.
  friend bool operator==(const Add&, const Add&) = default;
};

/// y = a * b, equal shapes.
struct Mul {
  friend bool operator==(const Mul&, const Mul&) = default;
};

/// y = x * factor + offset, constants known at capture.
struct Affine {
  float factor = 1.0F;  ///< Finite.
  float offset = 0.0F;  ///< Finite.
  friend bool operator==(const Affine&, const Affine&) = default;
};

/// Joins its inputs along `axis` (of the per-sample shape).
struct Concat {
  std::int64_t axis = 0;  ///< Of the per-sample shape.
  friend bool operator==(const Concat&, const Concat&) = default;
};

/// The same elements in row-major order under another per-sample shape; flatten is one of these.
struct Reshape {
  Shape shape;  ///< Per sample, no dimension left open.
  friend bool operator==(const Reshape&, const Reshape&) = default;
};

/// An elementwise function; on codes, a table of 256 entries.
struct Activation {
  /// Shared with `numerics`, which computes them.
  using Kind = ActivationKind;
  Kind kind = Kind::sigmoid;  ///< Which function.
  float alpha = 0.0F;         ///< elu: alpha; leaky_relu: negative slope; otherwise unused.
  friend bool operator==(const Activation&, const Activation&) = default;
};

/// exp(x - max) / sum, or its logarithm, along `axis`. Float only.
struct Softmax {
  std::int64_t axis = 0;   ///< Of the per-sample shape.
  bool logarithm = false;  ///< Whether the logarithm is taken.
  friend bool operator==(const Softmax&, const Softmax&) = default;
};

/// Zeroes elements with probability p while training; the identity otherwise. Not in converted graphs.
/// `channels`: whole channels at a time (LibTorch's dropout1d/2d).
struct Dropout {
  double p = 0.5;         ///< In [0, 1].
  bool channels = false;  ///< Whether a whole channel is dropped at a time.
  friend bool operator==(const Dropout&, const Dropout&) = default;
};

/// Float to codes under the output value's parameters.
struct Quantize {
  friend bool operator==(const Quantize&, const Quantize&) = default;
};

/// Codes to float.
struct Dequantize {
  friend bool operator==(const Dequantize&, const Dequantize&) = default;
};

using Op = std::variant<Conv, Linear, BatchNorm, Clamp, MaxPool, AvgPool, AdaptivePool, GlobalMean, GlobalMax, Add, Mul,
                        Affine, Concat, Reshape, Activation, Softmax, Dropout, Quantize, Dequantize>;

/// Whether the op is a conv or linear, whose first tensor is its weight.
[[nodiscard]] constexpr bool has_weights(const Op& op) {
  return is_any_of<Conv, Linear>(op);
}

/// The op's name as users see it: "conv", "linear", "batch_norm", …
[[nodiscard]] std::string_view name_of(const Op& op);

}  // namespace podaq
