#include "runtime/kernels/quad_list_packing.h"

#include <algorithm>
#include <array>
#include <bit>

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
    if ((weights[i] > 0) != (weights[i + 1] > 0)) continue;
    const int sum = weights[i] + weights[i + 1];
    const int taken = sum - std::clamp(sum, -largest_pair, largest_pair);
    excess[i] = static_cast<std::int8_t>(taken);
    weights[i] = static_cast<std::int8_t>(weights[i] - taken);
  }
  return excess;
}

// A listed quad of a block.
struct Listed {
  std::size_t offset;
  BlockWeights weights;
};

std::vector<Listed> quads_that_count(const QuadConv& conv, std::size_t group, std::size_t first_output) {
  std::vector<Listed> quads;
  for (std::size_t run = 0; run < conv.run_offsets.size(); ++run)
    for (std::size_t i = 0; i < conv.quads_per_run; ++i) {
      const BlockWeights weights = weights_at(conv, group, first_output, run * conv.quads_per_run + i);
      if (!all_zero(weights)) quads.push_back({.offset = conv.run_offsets[run] + i * quad, .weights = weights});
    }
  return quads;
}

std::vector<Listed> split(const std::vector<Listed>& quads) {
  std::vector<Listed> parts;
  for (Listed listed : quads) {
    const BlockWeights excess = split_off_excess(listed.weights);
    parts.push_back(listed);
    if (!all_zero(excess)) parts.push_back({.offset = listed.offset, .weights = excess});
  }
  return parts;
}

// A wide quad is half of one of 8-bit weights: two 16-bit ones for each output, which read two 16-bit codes.
BlockWeights wide_half(const BlockWeights& weights, std::size_t half) {
  std::array<std::int16_t, list_block_outputs * quad / 2> wide;
  for (std::size_t output = 0; output < list_block_outputs; ++output)
    std::copy_n(weights.data() + output * quad + half * 2, 2, wide.data() + output * 2);
  return std::bit_cast<BlockWeights>(wide);
}

std::vector<Listed> widen(const std::vector<Listed>& quads) {
  std::vector<Listed> halves;
  for (const Listed& listed : quads)
    for (const std::size_t half : {0, 1}) {
      const BlockWeights weights = wide_half(listed.weights, half);
      if (!all_zero(weights))
        halves.push_back({.offset = listed.offset * sizeof(std::int16_t) + half * quad, .weights = weights});
    }
  return halves;
}

// Half of a quad in 16 bits takes two instructions a vector, a quad in 8 bits three.
bool is_better_wide(std::size_t halves, std::size_t parts) {
  return halves * 2 < parts * 3;
}

void append(QuadListConv::Group& group, const QuadBlock& block, const std::vector<Listed>& quads) {
  group.blocks.push_back(block);
  group.blocks.back().quads = quads.size();
  const auto bytes = static_cast<std::ptrdiff_t>(block.vectors * list_vector_outputs * quad);
  for (const Listed& listed : quads) {
    group.offsets.push_back(static_cast<std::uint32_t>(listed.offset));
    group.weights.insert(group.weights.end(), listed.weights.begin(), listed.weights.begin() + bytes);
  }
}

}  // namespace

QuadListConv list_quads(QuadConv conv, QuadSums sums) {
  QuadListConv lists;
  const std::size_t outputs = conv.geometry.outputs_per_group();
  for (std::size_t g = 0; g < conv.geometry.groups; ++g) {
    QuadListConv::Group& group = lists.groups.emplace_back();
    for (std::size_t first = 0; first < outputs; first += list_block_outputs) {
      QuadBlock block{.first_output = static_cast<std::uint32_t>(first),
                      .vectors = outputs - first > list_vector_outputs ? 2U : 1U};
      const std::vector<Listed> quads = quads_that_count(conv, g, first);
      if (sums == QuadSums::in_32_bits) {
        append(group, block, quads);
        continue;
      }
      const std::vector<Listed> parts = split(quads);
      const std::vector<Listed> halves = widen(quads);
      block.is_wide = sums == QuadSums::in_16_bits_or_wide && is_better_wide(halves.size(), parts.size());
      lists.has_wide_blocks = lists.has_wide_blocks || block.is_wide;
      append(group, block, block.is_wide ? halves : parts);
    }
  }
  conv.weights = {};
  lists.conv = std::move(conv);
  return lists;
}

}  // namespace podaq::runtime_detail
