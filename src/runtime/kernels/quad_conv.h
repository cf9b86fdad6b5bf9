#pragma once

#include "runtime/kernel.h"
#include "runtime/kernels/absorption.h"
#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/quad_packing.h"
#include "runtime/kernels/tasks.h"

// Convolutions and linears of codes, four input bytes at a time, whatever the instruction set.
namespace podaq::runtime_detail {

/// What all groups and samples of a node share; its weights are left to the caller.
[[nodiscard]] QuadTask quad_task(const QuadConv& conv, const Operands& operands);

/// The task of a packed linear, whose positions are the samples of the batch; its weights are left to the caller.
[[nodiscard]] QuadTask quad_linear_task(const QuadConv& linear, const Operands& operands);

/// Whether a convolution can absorb a max pooling over such windows: tiles must hold whole results.
[[nodiscard]] constexpr bool is_small_pool(const PoolWindow& window) {
  return window.height * window.width == 2 || window.height * window.width == 4;
}

/// The weight of a node that holds Conv on codes, whose groups are those of `geometry`.
[[nodiscard]] GroupedWeights grouped_weights(const NodeView& view, const ConvGeometry& geometry);

/// All of a convolution but what packing its weights fills in.
[[nodiscard]] QuadConv unpacked_conv(const NodeView& view, const ConvGeometry& geometry);

/// Packs a node that holds Conv on codes.
/// @param least_outputs  Groups are merged until they have so many; groups_to_merge() finds how.
[[nodiscard]] QuadConv prepare_quad_conv(const NodeView& view, std::size_t least_outputs);

/// Packs a node that holds Linear over one row of codes.
/// @param quads_multiple  The inputs are padded to this many quads, with weights of 0.
[[nodiscard]] QuadConv prepare_quad_linear(const NodeView& view, std::size_t quads_multiple);

/// Whether a node that holds Linear is one over a single row of codes.
[[nodiscard]] bool is_linear_over_one_row(const NodeView& view);

/// Makes a packed convolution also compute `reader`, a max pooling of 2 or 4 windows, so that tiles hold whole results;
/// false where it is none.
[[nodiscard]] bool absorb_small_pool(QuadConv& conv, const NodeView& reader);

/// Makes a packed linear read the values that `producer`, a flatten, only puts in another order; false where it is
/// none.
[[nodiscard]] bool absorb_flatten(QuadConv& linear, const NodeView& producer);

/// What the scratch memory holds: the input with its borders, then what had to be transposed.
struct QuadScratch {
  std::size_t input = 0, residual = 0, bytes = 0;  ///< Offsets, but the last.
};
[[nodiscard]] QuadScratch quad_scratch(const QuadConv& conv);

/// Calls convolve(task, group) for each group of each sample; the task has the group's input, output, bias, multipliers
/// and residual.
template <typename Convolve>
void for_each_group(const QuadConv& conv, const Operands& operands, Convolve convolve) {
  const ConvGeometry& g = conv.geometry;
  const std::size_t row_width = conv.plane.is_needed() ? conv.plane.width : g.input_width;
  const std::size_t output_bytes = conv.epilogue.gives_codes ? sizeof(std::uint8_t) : sizeof(float);
  const QuadScratch place = quad_scratch(conv);
  auto* scratch = as<std::uint8_t>(operands.scratch);
  QuadTask sample_task = quad_task(conv, operands);
  sample_task.rows = g.output_height / conv.pool_height;
  sample_task.columns = g.output_width / conv.pool_width;
  sample_task.pool_rows = conv.pool_height;
  sample_task.pool_columns = conv.pool_width;
  sample_task.row_stride = g.stride_height * row_width * g.input_channels;
  sample_task.column_stride = g.stride_width * g.input_channels;
  const std::size_t output_size = g.output_channels * sample_task.rows * sample_task.columns;
  for (std::size_t sample = 0; sample < operands.batch; ++sample) {
    sample_task.input = readable_input(conv, operands.inputs[0], sample, scratch, scratch + place.input);
    sample_task.residual = readable_residual(conv, operands, sample, scratch + place.residual);
    QuadTask task = sample_task;
    for (std::size_t group = 0; group < g.groups; ++group) {
      convolve(task, group);
      task.input += g.channels_per_group();
      task.bias += conv.padded_outputs;
      task.multipliers += conv.padded_outputs;
      task.output =
          static_cast<std::byte*>(task.output) + g.outputs_per_group() * task.output_channel_stride * output_bytes;
      if (task.residual != nullptr) task.residual += g.outputs_per_group();
    }
    sample_task.output = static_cast<std::byte*>(sample_task.output) + output_size * output_bytes;
  }
}

namespace avx512 {

/// Computes a batch of a packed linear.
void run_quad_linear(const QuadConv& linear, const Operands& operands);

}  // namespace avx512

}  // namespace podaq::runtime_detail
