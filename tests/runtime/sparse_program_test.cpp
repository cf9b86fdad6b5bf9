#include "runtime/kernels/sparse_program.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "runtime/support.h"

namespace podaq::test {
namespace {

using runtime_detail::ConvGeometry;
using runtime_detail::SparseProgram;

struct Layer {
  ConvGeometry geometry;
  std::vector<std::int8_t> codes;
  std::vector<std::int32_t> bias;
  std::vector<float> multipliers;

  [[nodiscard]] std::size_t columns() const { return geometry.channels_per_group() * geometry.taps(); }
  [[nodiscard]] SparseProgram program() const {
    return runtime_detail::make_sparse_program(
        {.geometry = geometry, .codes = codes, .bias = bias, .multipliers = multipliers});
  }
};

Layer random_layer(std::size_t inputs, std::size_t outputs, std::size_t taps, std::size_t groups, double density,
                   std::size_t rows, std::uint64_t seed) {
  Draws draws(seed);
  Layer layer;
  layer.geometry.input_channels = inputs;
  layer.geometry.output_channels = outputs;
  layer.geometry.kernel_width = taps;
  layer.geometry.groups = groups;
  layer.codes.assign(outputs * layer.columns(), 0);
  for (std::size_t row = 0; row < outputs; row += rows)
    for (std::size_t column = 0; column < layer.columns(); ++column)
      if (draws.chance(density))
        for (std::size_t i = row; i < std::min(row + rows, outputs); ++i)
          layer.codes[i * layer.columns() + column] = static_cast<std::int8_t>(draws.integer(1, 127) * -1);
  for (std::size_t row = 0; row < outputs; ++row) {
    layer.bias.push_back(static_cast<std::int32_t>(row) * 3 - 5);
    layer.multipliers.push_back(static_cast<float>(row) + 0.5F);
  }
  return layer;
}

// Reads a program back: for each output channel, the sum of the weights that meet each element.
std::vector<std::map<std::uint32_t, int>> read_back(const SparseProgram& program, std::size_t outputs) {
  std::vector<std::map<std::uint32_t, int>> weights(outputs);
  const auto* quad = program.quads.data();
  const auto* rows = program.rows.data();
  for (const auto& run : program.runs)
    for (std::uint32_t group = 0; group < run.groups; ++group, rows += run.rows)
      for (std::uint32_t i = 0; i < run.quads; ++i, quad += run.rows + 4)
        for (std::uint32_t row = 0; row < run.rows; ++row)
          for (std::uint32_t byte = 0; byte < 4; ++byte) {
            const auto weight = static_cast<std::int8_t>(quad[4 + row] >> (8 * byte));
            if (weight != 0) weights[rows[row].channel][quad[byte]] += weight;
          }
  EXPECT_EQ(quad, program.quads.data() + program.quads.size());
  EXPECT_EQ(rows, program.rows.data() + program.rows.size());
  return weights;
}

TEST(SparseProgramProperty, HoldsEachNonzeroOnceAndEachRowsBiasAndMultiplier) {
  std::uint64_t seed = 0;
  for (const std::size_t outputs : {1U, 3U, 6U, 70U, 130U})
    for (const std::size_t inputs : {2U, 10U, 150U})
      for (const std::size_t groups : {1U, 2U})
        for (const double density : {0.0, 0.04, 0.3, 1.0})
          for (const std::size_t rows : {1U, 2U, 4U}) {
            if (outputs % groups != 0) continue;
            const Layer layer = random_layer(inputs, outputs, 3, groups, density, rows, ++seed);
            const SparseProgram program = layer.program();
            const auto weights = read_back(program, outputs);
            std::size_t channels = 0;
            for (std::size_t row = 0; row < outputs; ++row) {
              const std::size_t first = row / (outputs / groups) * layer.columns();
              std::size_t nonzeros = 0;
              for (std::size_t column = 0; column < layer.columns(); ++column) {
                const std::int8_t weight = layer.codes[row * layer.columns() + column];
                if (weight == 0) continue;
                ++nonzeros;
                const auto found = weights[row].find(static_cast<std::uint32_t>(first + column));
                ASSERT_TRUE(found != weights[row].end() && found->second == weight) << row << " " << column;
              }
              ASSERT_EQ(weights[row].size(), nonzeros);
            }
            for (const auto& row : program.rows) {
              ASSERT_EQ(row.bias, layer.bias[row.channel]);
              ASSERT_EQ(row.multiplier, layer.multipliers[row.channel]);
              channels += 1;
            }
            ASSERT_EQ(channels, outputs);
          }
}

TEST(SparseProgram, RowsThatReadTheSameElementsAreJoined) {
  const SparseProgram program = random_layer(16, 16, 3, 1, 0.2, 4, 1).program();
  for (const auto& run : program.runs) EXPECT_EQ(run.rows, run.quads == 0 ? run.rows : 4U);
}

TEST(SparseProgram, SumsAreSmallBelow2To23) {
  constexpr std::int32_t limit = std::int32_t{1} << 23;
  const auto is_small = [](std::vector<std::int8_t> codes, std::int32_t bias) {
    const ConvGeometry g{.input_channels = codes.size(), .output_channels = 1};
    const std::vector<std::int32_t> biases = {bias};
    const std::vector<float> multipliers = {1.0F};
    return runtime_detail::has_small_sums({.geometry = g, .codes = codes, .bias = biases, .multipliers = multipliers});
  };
  EXPECT_TRUE(is_small({100, -100, 27}, limit - 1 - 127 * 255));
  EXPECT_FALSE(is_small({100, -100, 27}, limit - 127 * 255));
  EXPECT_TRUE(is_small({100, -100, 27}, 100 * 255 + 1 - (1 << 30)));
  EXPECT_FALSE(is_small({100, -100, 27}, 100 * 255 - (1 << 30)));
}

TEST(SparseProgram, RowsOfOneShapeFollowOneAnother) {
  const SparseProgram program = random_layer(16, 64, 9, 1, 0.1, 1, 1).program();
  std::set<std::pair<std::uint32_t, std::uint32_t>> shapes;
  for (const auto& run : program.runs) EXPECT_TRUE(shapes.insert({run.rows, run.quads}).second);
}

}  // namespace
}  // namespace podaq::test
