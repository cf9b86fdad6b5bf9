#include "runtime/kernels/quad_list_packing.h"

#include <algorithm>
#include <array>

#include "runtime/kernels/quad_packing.h"

namespace podaq::runtime_detail {

namespace {

// What pack_quads made: blocks of up to 64 outputs in vectors of 16.
constexpr std::size_t packed_block_outputs = 64;

// The weights of a quad for the outputs of a block.
using BlockWeights = std::array<std::int8_t, list_block_outputs * quad>;

bool all_zero(const BlockWeights& weights) {
  return std::all_of(weights.begin(), weights.end(), [](std::int8_t weight) { return weight == 0; });
}

BlockWeights weights_at(const QuadConv& conv, std::size_t group, std::size_t first_output, std::size_t quad_index) {
  const std::size_t quads = conv.run_offsets.size() * conv.quads_per_run;
  const std::size_t first_of_block = first_output / packed_block_outputs * packed_block_outputs;
  const std::size_t block_outputs = std::min(packed_block_outputs, conv.padded_outputs - first_of_block);
  const std::int8_t* block = conv.weights.data() + (group * conv.padded_outputs + first_of_block) * quads * quad;
  BlockWeights weights;
  std::copy_n(block + (quad_index * block_outputs + first_output - first_of_block) * quad, weights.size(),
              weights.begin());
  return weights;
}

// Takes from each pair of weights what makes its largest sum of products with codes leave 16 bits, and returns it.
// Weights of both signs never do: |w| * 255 fits for a single one. What is taken, from the first of a pair, is at most
// 128 and fits likewise.
BlockWeights split_off_excess(BlockWeights& weights) {
  constexpr int largest_pair = 32767 / 255;
  BlockWeights excess{};
  for (std::size_t i = 0; i < weights.size(); i += 2) {
    const int first = weights[i];
    const int second = weights[i + 1];
    if ((first > 0) != (second > 0)) continue;
    const int sum = first + second;
    const int taken = sum - std::clamp(sum, -largest_pair, largest_pair);
    excess[i] = static_cast<std::int8_t>(taken);
    weights[i] = static_cast<std::int8_t>(first - taken);
  }
  return excess;
}

void append(QuadListConv::Group& group, std::size_t offset, const BlockWeights& weights) {
  QuadBlock& block = group.blocks.back();
  if (all_zero(weights)) return;
  ++block.quads;
  group.offsets.push_back(static_cast<std::uint32_t>(offset));
  group.weights.insert(group.weights.end(), weights.begin(),
                       weights.begin() + static_cast<std::ptrdiff_t>(block.vectors * list_vector_outputs * quad));
}

}  // namespace

QuadListConv list_quads(QuadConv conv, QuadSums sums) {
  QuadListConv lists;
  const std::size_t outputs = conv.geometry.outputs_per_group();
  for (std::size_t g = 0; g < conv.geometry.groups; ++g) {
    QuadListConv::Group& group = lists.groups.emplace_back();
    for (std::size_t first = 0; first < outputs; first += list_block_outputs) {
      group.blocks.push_back({.first_output = static_cast<std::uint32_t>(first),
                              .vectors = outputs - first > list_vector_outputs ? 2U : 1U});
      for (std::size_t run = 0; run < conv.run_offsets.size(); ++run)
        for (std::size_t i = 0; i < conv.quads_per_run; ++i) {
          const std::size_t offset = conv.run_offsets[run] + i * quad;
          BlockWeights weights = weights_at(conv, g, first, run * conv.quads_per_run + i);
          const BlockWeights excess = sums == QuadSums::pairs_of_16_bits ? split_off_excess(weights) : BlockWeights{};
          append(group, offset, weights);
          append(group, offset, excess);
        }
    }
  }
  conv.weights = {};
  lists.conv = std::move(conv);
  return lists;
}

}  // namespace podaq::runtime_detail
