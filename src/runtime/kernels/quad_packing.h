#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/kernel.h"

namespace podaq::runtime_detail {

/// Input bytes that one lane of an int8 dot product takes at a time.
inline constexpr std::size_t quad = 4;

[[nodiscard]] constexpr std::size_t round_up(std::size_t count, std::size_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

/// How many groups of a convolution are computed as one, with weights of 0 between them, since groups of few outputs
/// would leave most lanes idle: the smallest number that divides them all and gives `least_outputs`. 0 where even that
/// would waste more than it fills.
[[nodiscard]] std::size_t groups_to_merge(const ConvGeometry& geometry, std::size_t least_outputs);

/// The contiguous runs of input bytes that a window consists of, channels last, and what each byte is.
struct WindowRuns {
  struct Byte {
    std::size_t channel, tap;
  };
  std::size_t count = 0, bytes = 0;
  std::vector<Byte> window;  ///< Of all runs, one after another.
};

/// The convolution whose groups are merged until each fills the lanes of a vector, where that can be done.
[[nodiscard]] ConvGeometry with_merged_groups(ConvGeometry geometry);

/// Taps of one contiguous run: a row of neighbouring taps of an ungrouped convolution, otherwise one.
[[nodiscard]] std::size_t run_taps(const ConvGeometry& geometry);

/// The runs of a window.
[[nodiscard]] WindowRuns find_runs(const ConvGeometry& geometry);

/// Bytes from a window's start to each of its runs, in an input whose rows are `row_width` positions wide.
[[nodiscard]] std::vector<std::uint32_t> run_offsets(const ConvGeometry& geometry, const WindowRuns& runs,
                                                     std::size_t row_width);

/// A weight tensor {outputs, inputs of a group, taps} whose groups may have been merged since.
struct GroupedWeights {
  std::vector<std::int8_t> codes;
  std::size_t inputs = 1, outputs = 1, taps = 1;  ///< Of one original group.
};

/// Fills the packed weights, bias and multipliers of `packed`, whose geometry has the merged groups; its epilogue hands
/// its multipliers over.
/// @param bias  See folded_bias().
/// @param outputs_multiple  Bias, multipliers and weights of each group are padded to this many outputs, with zeros.
void pack_quads(QuadConv& packed, const WindowRuns& runs, const GroupedWeights& weights,
                std::span<const std::int32_t> bias, std::size_t outputs_multiple);

/// Moves the weights of a packed linear whose inputs are flattened {channels, positions} to where they belong when the
/// channels of each position lie side by side instead.
void reorder_inputs(QuadConv& linear, std::size_t channels, std::size_t positions);

}  // namespace podaq::runtime_detail
