#include "runtime/kernels/sparse_linear.h"

#include <algorithm>
#include <cstring>

#include "podaq/core/cpu.h"
#include "runtime/kernels/avx512/sparse_linear_task.h"
#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/quad_conv.h"
#include "runtime/kernels/quad_packing.h"
#include "runtime/kernels/registry.h"
#include "runtime/kernels/tile_linear.h"
#include "runtime/kernels/weights.h"

namespace podaq::runtime_detail::avx512 {

namespace {

// Samples whose sums wait in the scratch memory at a time: as many as the kernel computes at a time; by then reading
// the weights takes no longer than computing.
constexpr std::size_t samples_together = 4;

bool accepts(const NodeView& view) {
  constexpr std::size_t most_inputs = std::size_t{1} << 16;  // starts of windows are 16 bits wide
  return view.has_codes() && view.input().shape.size() == 1 && channel_count(view.input().shape) <= most_inputs &&
         detect_cpu().avx512vbmi;
}

Packed prepare(const NodeView& view) {
  const auto& linear = std::get<Linear>(view.node.op);
  SparseLinear packed{.inputs = channel_count(view.input().shape),
                      .outputs = channel_count(view.output().shape),
                      .slots = {},
                      .starts = {},
                      .steps = {},
                      .lane_outputs = {},
                      .bias = {},
                      .multipliers = {},
                      .epilogue = integer_epilogue(view, linear.adds_input, linear.clamp),
                      .dense = {}};
  const std::vector<std::int8_t> codes = integer_weights(view);
  pack_nonzeros(packed, codes);
  std::vector<std::int32_t> bias = folded_bias(view, codes, packed.outputs);
  bias.resize(packed.lane_outputs.size(), 0);
  for (const std::uint32_t output : packed.lane_outputs) packed.bias.push_back(bias[output]);
  packed.multipliers.assign(packed.lane_outputs.size(), 0.0F);
  std::copy(packed.epilogue.multipliers.begin(), packed.epilogue.multipliers.end(), packed.multipliers.begin());
  packed.epilogue.multipliers = {};
  return packed;
}

bool copies_input(const SparseLinear& linear) {
  return linear.inputs < window_inputs;
}

// What the scratch memory holds: sums, then copies of inputs that are shorter than a window.
struct Scratch {
  std::size_t inputs = 0, bytes = 0;  ///< Offset and total.
};

Scratch scratch_of(const SparseLinear& linear) {
  const std::size_t sums = samples_together * linear.lane_outputs.size() * sizeof(std::int32_t);
  return {.inputs = sums, .bytes = sums + (copies_input(linear) ? samples_together * window_inputs : 0)};
}

std::size_t scratch_bytes(const Packed& packed) {
  const auto& linear = std::get<SparseLinear>(packed);
  const bool has_tiles = linear.dense && !linear.dense->chunk_offsets.empty();
  return std::max(scratch_of(linear).bytes, has_tiles ? amx::tile_linear_scratch_bytes(*linear.dense) : 0);
}

void run_dense(const TileConv& dense, const Operands& operands) {
  if (dense.chunk_offsets.empty())
    run_quad_linear(dense.conv, operands);
  else
    amx::run_tile_linear(dense, operands);
}

void run(const Packed& packed, const Operands& operands) {
  const auto& linear = std::get<SparseLinear>(packed);
  if (linear.dense && operands.batch > linear.most_samples) return run_dense(*linear.dense, operands);
  const QuadTask outputs{.multipliers = linear.multipliers.data(),
                         .outputs = linear.outputs,
                         .output = operands.output,
                         .output_position_stride = linear.outputs,
                         .residual = linear.epilogue.adds_codes ? as<std::uint8_t>(operands.inputs[1]) : nullptr,
                         .residual_position_stride = linear.outputs,
                         .epilogue = epilogue_task(linear.epilogue)};
  SparseLinearTask task{.input = as<std::uint8_t>(operands.inputs[0]),
                        .sample_bytes = linear.inputs,
                        .slots = linear.slots.data(),
                        .starts = linear.starts.data(),
                        .steps = linear.steps.data(),
                        .blocks = linear.steps.size(),
                        .bias = linear.bias.data(),
                        .outputs = linear.lane_outputs.data(),
                        .sums = as<std::int32_t>(operands.scratch),
                        .sums_stride = linear.lane_outputs.size()};
  auto* copies = as<std::uint8_t>(operands.scratch) + scratch_of(linear).inputs;
  for (std::size_t first = 0; first < operands.batch; first += samples_together) {
    task.samples = std::min(samples_together, operands.batch - first);
    const std::uint8_t* inputs = as<std::uint8_t>(operands.inputs[0]) + first * linear.inputs;
    task.input = inputs;
    if (copies_input(linear)) {
      for (std::size_t sample = 0; sample < task.samples; ++sample)
        std::memcpy(copies + sample * window_inputs, inputs + sample * linear.inputs, linear.inputs);
      task.input = copies;
      task.sample_bytes = window_inputs;
    }
    multiply_sparse(task);
    for (std::size_t sample = 0; sample < task.samples; ++sample)
      finish_sums(outputs, task.sums + sample * task.sums_stride, first + sample);
  }
}

// The channels of each position lie side by side in what the flatten reads.
void reorder_channels_last(SparseLinear& linear, std::size_t channels, std::size_t positions) {
  const std::vector<std::int8_t> before = unpack_nonzeros(linear);
  std::vector<std::int8_t> codes(before.size());
  for (std::size_t row = 0; row < before.size(); row += linear.inputs)
    for (std::size_t channel = 0; channel < channels; ++channel)
      for (std::size_t position = 0; position < positions; ++position)
        codes[row + position * channels + channel] = before[row + channel * positions + position];
  pack_nonzeros(linear, codes);
}

bool absorb_producer(Packed& packed, const NodeView& producer) {
  auto& linear = std::get<SparseLinear>(packed);
  if (!std::holds_alternative<Reshape>(producer.node.op) || producer.output().shape.size() != 1) return false;
  if (linear.dense && !absorb_flatten(linear.dense->conv, producer)) return false;
  if (producer.input_layout() == Layout::channels_last)
    reorder_channels_last(linear, channel_count(producer.input().shape), position_count(producer.input().shape));
  return true;
}

}  // namespace

const Kernel sparse_linear = {.name = "avx512_sparse_linear",
                              .isa = Isa::avx512,
                              .accepts = accepts,
                              .prepare = prepare,
                              .run = run,
                              .scratch_bytes = scratch_bytes,
                              .absorb_producer = absorb_producer};

}  // namespace podaq::runtime_detail::avx512
