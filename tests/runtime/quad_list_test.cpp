// The kernels for 256-bit registers: which quads they list, and sums that 16 bits cannot hold.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "runtime/kernels/quad_list_packing.h"
#include "runtime/kernels/quad_packing.h"
#include "runtime/layers.h"
#include "runtime/support.h"

namespace podaq::test {
namespace {

using runtime_detail::list_quads;
using runtime_detail::QuadBlock;
using runtime_detail::QuadConv;
using runtime_detail::QuadListConv;
using runtime_detail::QuadSums;

// A packed linear of so many inputs and outputs.
struct PackedLinear {
  std::int64_t inputs, outputs;
  std::vector<std::int8_t> weights;

  [[nodiscard]] QuadConv pack() const {
    const std::size_t in = static_cast<std::size_t>(inputs);
    const std::size_t out = static_cast<std::size_t>(outputs);
    QuadConv packed{.geometry = {.input_channels = in, .output_channels = out},
                    .run_offsets = {0},
                    .quads_per_run = (in + 3) / 4,
                    .weights = {},
                    .bias = {},
                    .multipliers = {},
                    .epilogue = {.multipliers = std::vector<float>(out, 1.0F)},
                    .quantizes = {}};
    const std::vector<std::int32_t> bias(out, 0);
    runtime_detail::pack_quads(packed, runtime_detail::find_runs(packed.geometry),
                               {.codes = weights, .inputs = in, .outputs = out}, bias, 16);
    return packed;
  }
  [[nodiscard]] int weight(std::size_t output, std::size_t input) const {
    const bool exists = output < static_cast<std::size_t>(outputs) && input < static_cast<std::size_t>(inputs);
    return exists ? weights[output * static_cast<std::size_t>(inputs) + input] : 0;
  }
};

PackedLinear random_linear(Draws& draws, bool only_large) {
  PackedLinear linear{.inputs = draws.integer(1, 40), .outputs = draws.integer(1, 70), .weights = {}};
  linear.weights.resize(static_cast<std::size_t>(linear.inputs * linear.outputs));
  for (auto& w : linear.weights)
    w = static_cast<std::int8_t>(only_large ? (draws.chance(0.5) ? 127 : -128) : draws.integer(-128, 127));
  return linear;
}

// Calls visit(first output, offset, weights of 4 bytes for each output of the block) for each listed quad.
template <typename Visit>
void for_each_quad(const QuadListConv::Group& group, Visit visit) {
  std::size_t quad = 0;
  const std::int8_t* weights = group.weights.data();
  for (const QuadBlock& block : group.blocks)
    for (std::size_t i = 0; i < block.quads; ++i, ++quad) {
      visit(block, group.offsets[quad], weights);
      weights += std::size_t{32} * block.vectors;
    }
  ASSERT_EQ(quad, group.offsets.size());
  ASSERT_EQ(weights, group.weights.data() + group.weights.size());
}

TEST(QuadListProperty, ListedWeightsAddUpToTheLayersAndNoPairCanSaturate) {
  for (std::uint64_t seed = 0; seed < 200 && !HasFailure(); ++seed) {
    Draws draws(seed);
    const PackedLinear linear = random_linear(draws, seed % 2 == 0);
    for (const QuadSums sums : {QuadSums::in_32_bits, QuadSums::in_16_bits}) {
      const QuadListConv lists = list_quads(linear.pack(), sums);
      ASSERT_EQ(lists.groups.size(), 1U);
      std::map<std::pair<std::size_t, std::size_t>, int> total;
      for_each_quad(lists.groups[0], [&](const QuadBlock& block, std::size_t offset, const std::int8_t* weights) {
        for (std::size_t output = 0; output < 8 * block.vectors; ++output)
          for (std::size_t byte = 0; byte < 4; byte += 2) {
            const std::int8_t* pair = weights + output * 4 + byte;
            total[{block.first_output + output, offset + byte}] += pair[0];
            total[{block.first_output + output, offset + byte + 1}] += pair[1];
            if (sums == QuadSums::in_32_bits) continue;
            EXPECT_LE(255 * (std::max<int>(pair[0], 0) + std::max<int>(pair[1], 0)), 32767);
            EXPECT_GE(255 * (std::min<int>(pair[0], 0) + std::min<int>(pair[1], 0)), -32768);
          }
      });
      for (std::size_t output = 0; output < static_cast<std::size_t>(linear.outputs); ++output)
        for (std::size_t input = 0; input < static_cast<std::size_t>(linear.inputs); ++input)
          EXPECT_EQ((total[{output, input}]), linear.weight(output, input)) << "seed " << seed;
      for (const auto& [place, weight] : total) EXPECT_EQ(weight, linear.weight(place.first, place.second));
    }
  }
}

TEST(QuadListProperty, WideBlocksHoldTheSameWeights) {
  std::size_t wide_blocks = 0;
  for (std::uint64_t seed = 0; seed < 100 && !HasFailure(); ++seed) {
    Draws draws(seed);
    const PackedLinear linear = random_linear(draws, seed % 2 == 0);
    const QuadListConv lists = list_quads(linear.pack(), QuadSums::in_16_bits_or_wide);
    std::map<std::pair<std::size_t, std::size_t>, int> total;
    for_each_quad(lists.groups[0], [&](const QuadBlock& block, std::size_t offset, const std::int8_t* weights) {
      wide_blocks += block.is_wide ? 1 : 0;
      for (std::size_t output = 0; output < 8 * block.vectors; ++output)
        for (std::size_t i = 0; i < (block.is_wide ? 2U : 4U); ++i) {
          std::int16_t wide = 0;
          std::memcpy(&wide, weights + (output * 2 + i) * sizeof wide, sizeof wide);
          const std::size_t input = block.is_wide ? offset / sizeof wide + i : offset + i;
          total[{block.first_output + output, input}] += block.is_wide ? wide : weights[output * 4 + i];
        }
    });
    EXPECT_EQ(lists.has_wide_blocks, std::any_of(lists.groups[0].blocks.begin(), lists.groups[0].blocks.end(),
                                                 [](const QuadBlock& block) { return block.is_wide; }));
    for (std::size_t output = 0; output < static_cast<std::size_t>(linear.outputs); ++output)
      for (std::size_t input = 0; input < static_cast<std::size_t>(linear.inputs); ++input)
        EXPECT_EQ((total[{output, input}]), linear.weight(output, input)) << "seed " << seed;
    for (const auto& [place, weight] : total) EXPECT_EQ(weight, linear.weight(place.first, place.second));
  }
  EXPECT_GT(wide_blocks, 0U);
}

TEST(QuadList, LeavesOutQuadsOfZerosAndSplitsOnlyWhatCouldSaturate) {
  PackedLinear linear{.inputs = 16, .outputs = 3, .weights = std::vector<std::int8_t>(48, 0)};
  linear.weights[4] = 127;      // quad 1 of output 0: a weight alone always fits
  linear.weights[16 + 6] = 64;  // quad 1 of output 1: 64 and 64 are the most that fit
  linear.weights[16 + 7] = 64;
  linear.weights[32 + 12] = -64;  // quad 3 of output 2: one more
  linear.weights[32 + 13] = -65;
  EXPECT_EQ(list_quads(linear.pack(), QuadSums::in_32_bits).groups[0].offsets, (std::vector<std::uint32_t>{4, 12}));
  EXPECT_EQ(list_quads(linear.pack(), QuadSums::in_16_bits).groups[0].offsets, (std::vector<std::uint32_t>{4, 12, 12}));
}

// C43 and pytorch #44939 for convolutions of every width: the largest products, next to each other, of either sign.
TEST(QuadListGolden, TheLargestNeighbouringProductsAreExact) {
  constexpr std::int64_t outputs = 19;
  constexpr std::int64_t length = 9;
  constexpr std::int8_t extremes[] = {127, -127, 113, 64, 65, -65, 1, 0};
  for (const std::int64_t channels : {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 17, 31, 33, 63, 65}) {
    Draws draws(static_cast<std::uint64_t>(channels));
    const std::int64_t window = channels * 3;
    CodeLayer conv{.input = {channels, length},
                   .op = conv_of({}),
                   .weight_shape = {outputs, channels, 3},
                   .weights = std::vector<std::int8_t>(static_cast<std::size_t>(outputs * window)),
                   .bias = {},
                   .input_qparams = {.scale = 1.0F, .zero_point = 0, .lowest = 0, .highest = 255},
                   .output_qparams = std::nullopt};
    std::vector<float> expected;
    for (std::int64_t output = 0; output < outputs; ++output) {
      std::int64_t sum = 0;
      for (std::int64_t i = 0; i < window; ++i) {
        // The first outputs have one weight throughout, the others any.
        const auto kind = static_cast<std::size_t>(output < 8 ? output : draws.integer(0, 7));
        conv.weights[static_cast<std::size_t>(output * window + i)] = extremes[kind];
        sum += 255 * extremes[kind];
      }
      expected.insert(expected.end(), length - 2, static_cast<float>(sum));
    }
    const std::vector<float> input(static_cast<std::size_t>(channels * length), 255.0F);
    for (const Isa isa : runnable_isas())
      EXPECT_EQ(run_model(Model(graph_of(conv), {.read = {}, .isa = isa}), {input}, 1, 1), expected)
          << channels << " channels, " << name_of(isa);
  }
}

TEST(QuadList, ForcedInstructionSetsUseTheirOwnKernels) {
  const CodeLayer conv{.input = {5, 9},
                       .op = conv_of({.pad = 1}),
                       .weight_shape = {7, 5, 3},
                       .weights = std::vector<std::int8_t>(105, 3),
                       .bias = {},
                       .input_qparams = {.scale = 1.0F, .zero_point = 9, .lowest = 0, .highest = 255},
                       .output_qparams = std::nullopt};
  const CodeLayer linear{.input = {5},
                         .op = Linear{},
                         .weight_shape = {7, 5},
                         .weights = std::vector<std::int8_t>(35, 3),
                         .bias = {},
                         .input_qparams = {.scale = 1.0F, .zero_point = 9, .lowest = 0, .highest = 255},
                         .output_qparams = std::nullopt};
  for (const Isa isa : runnable_isas()) {
    if (isa != Isa::avx2 && isa != Isa::avxvnni) continue;
    const std::string prefix(name_of(isa));
    EXPECT_EQ(Model(graph_of(conv), {.read = {}, .isa = isa}).kernels().back().kernel, prefix + "_quad_conv");
    EXPECT_EQ(Model(graph_of(linear), {.read = {}, .isa = isa}).kernels().back().kernel, prefix + "_quad_linear");
    const FloatLayer floats{.input = {5, 9},
                            .op = conv_of({}),
                            .weight_shape = {7, 5, 3},
                            .weights = std::vector<float>(105, 0.5F),
                            .bias = {}};
    EXPECT_EQ(Model(graph_of(floats), {.read = {}, .isa = isa}).kernels().back().kernel, "avx2_float_conv");
  }
}

}  // namespace
}  // namespace podaq::test
