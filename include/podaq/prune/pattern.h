#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace podaq {

/// Weights are pruned one by one.
struct UnstructuredPattern {
  friend bool operator==(const UnstructuredPattern&, const UnstructuredPattern&) = default;
};

/// At most `n` weights are left in every `m` that are neighbours along the input channels (input features of a linear
/// layer), for each output channel and tap: what a matrix product with the taps outside and the channels inside reads
/// together. The last group of a row may be short and is left `n` weights too, so rows of up to `n` inputs (depthwise
/// layers) stay whole.
struct NOfMPattern {
  std::int64_t n = 2;  ///< 1 to m - 1.
  std::int64_t m = 4;  ///< 2 to 1024.

  friend bool operator==(const NOfMPattern&, const NOfMPattern&) = default;
};

/// Blocks of `rows` neighbouring output channels and `columns` neighbouring input channels at one tap are pruned
/// together. Blocks begin at the first channel of each conv group and never reach into the next; the last ones of a
/// group may be short. 4 rows and 1 column is what the sparse runtime kernels run fastest.
struct BlockPattern {
  std::int64_t rows = 4;     ///< 1 to 1024.
  std::int64_t columns = 1;  ///< 1 to 1024.

  friend bool operator==(const BlockPattern&, const BlockPattern&) = default;
};

/// All weights of an output channel are pruned together, and with them the channel's bias and batch norm, and all
/// channels that can only go together with it (see find_prunable_channels): the channel is 0 wherever it is read, so
/// that it can be removed. A channel's score is the sum over all layers that compute it. Channels that must stay are no
/// units; each ChannelSet keeps one.
struct ChannelPattern {
  /// Of each ChannelSet a multiple of this many channels is left, or all: what exceeds it stays, so that fewer than the
  /// asked share may go. 1 to 1024; 4 suits the runtime's kernels.
  std::int64_t align = 1;

  friend bool operator==(const ChannelPattern&, const ChannelPattern&) = default;
};

/// Which weights of a layer are pruned together. Each pattern divides a weight [outputs, inputs of a conv group,
/// taps...] into *units*, numbered from 0: single weights (also under NOfMPattern) in row-major order, blocks by conv
/// group, row, column and tap, output channels.
using Pattern = std::variant<UnstructuredPattern, NOfMPattern, BlockPattern, ChannelPattern>;

/// The pattern as recipes spell it: "unstructured", "2:4", "4x1" (rows x columns), "channels".
[[nodiscard]] std::string name_of(const Pattern& pattern);

/// What `name_of` writes; none for other text and for numbers out of range.
[[nodiscard]] std::optional<Pattern> parse_pattern(std::string_view text);

/// What number of the pattern is outside its range; empty where none is.
[[nodiscard]] std::string problem_with(const Pattern& pattern);

/// How many units a weight of that shape has; under ChannelPattern as if nothing tied its channels.
/// @param groups  the convolution's; 1 for linear layers.
[[nodiscard]] std::int64_t count_units(const Pattern& pattern, torch::IntArrayRef shape, std::int64_t groups);

/// How many of them may be pruned: all but one, and under NOfMPattern no more than leaves `n` in each group.
[[nodiscard]] std::int64_t count_prunable_units(const Pattern& pattern, torch::IntArrayRef shape, std::int64_t groups);

/// The sum of each unit's elements: a row [units].
/// @param elements  of a weight's shape, floating point.
[[nodiscard]] torch::Tensor sum_units(const Pattern& pattern, const torch::Tensor& elements, std::int64_t groups);

/// Which units a mask of a weight's shape prunes as a whole: bool [units].
[[nodiscard]] torch::Tensor units_of_mask(const Pattern& pattern, const torch::Tensor& mask, std::int64_t groups);

/// The mask of a weight of that shape that prunes exactly these units: bool [units] -> bool of `shape`.
[[nodiscard]] torch::Tensor mask_of_units(const Pattern& pattern, const torch::Tensor& units, torch::IntArrayRef shape,
                                          std::int64_t groups);

/// Which weights `n` of `m` lets live whatever else is pruned: bool of `scores`' shape, true at the `n` highest of each
/// group, the later ones among equals.
/// @param scores  of a weight's shape, without NaN and +infinity.
[[nodiscard]] torch::Tensor spared_weights(const NOfMPattern& pattern, const torch::Tensor& scores);

}  // namespace podaq
