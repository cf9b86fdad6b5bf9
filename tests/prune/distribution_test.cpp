#include "podaq/prune/distribution.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "podaq/prune/selection.h"

namespace podaq {
namespace {

LayerExtent layer(std::vector<std::int64_t> shape) {
  const std::int64_t units = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  return {.units = units, .shape = std::move(shape)};
}

std::int64_t sum(const std::vector<std::int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

// arXiv 1911.11134: density is in proportion to (outputs + inputs + height + width) / (their product).
TEST(ErkDistribution, KeepsDensitiesInTheProportionsOfItsFormula) {
  const std::vector<LayerExtent> layers = {layer({64, 64, 3, 3}), layer({128, 64, 3, 3}), layer({256, 128, 3, 3})};
  const std::vector<std::int64_t> zeros = erk_zeros(layers, 0.95);
  const auto density = [&](std::size_t i) {
    return 1 - static_cast<double>(zeros[i]) / static_cast<double>(layers[i].units);
  };
  const double first = (64 + 64 + 3 + 3) / (64.0 * 64 * 9);
  const double second = (128 + 64 + 3 + 3) / (128.0 * 64 * 9);
  EXPECT_NEAR(density(1) / density(0), second / first, 1e-3);
  EXPECT_EQ(sum(zeros), zeros_at(0.95, 64 * 64 * 9 + 128 * 64 * 9 + 256 * 128 * 9, 3));
}

TEST(ErkDistribution, LeavesLayersDenseThatWouldExceedOneAndRescalesTheOthers) {
  const std::vector<LayerExtent> layers = {layer({4, 1, 1}), layer({100, 100})};
  const std::vector<std::int64_t> zeros = erk_zeros(layers, 0.5);
  EXPECT_EQ(zeros, (std::vector<std::int64_t>{0, 5002}));
}

TEST(ErkDistributionProperty, HasTheExactSumAndLeavesNoLayerEmpty) {
  std::mt19937 random(5);
  const auto size = [&](int most) { return std::uniform_int_distribution<std::int64_t>(1, most)(random); };
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<LayerExtent> layers;
    const std::int64_t count = size(6);
    for (std::int64_t i = 0; i < count; ++i) layers.push_back(layer({size(20), size(9), size(3)}));
    if (trial % 7 == 0) layers.push_back({.units = 0, .shape = {0, 3}});
    std::int64_t units = 0;
    for (const LayerExtent& each : layers) units += each.units;
    for (const double sparsity : {0.0, 1e-9, 0.1, 0.5, 0.9, 0.999, 1.0}) {
      const std::vector<std::int64_t> zeros = erk_zeros(layers, sparsity);
      EXPECT_EQ(sum(zeros), zeros_at(sparsity, units, count));
      for (std::size_t i = 0; i < layers.size(); ++i) {
        EXPECT_GE(zeros[i], 0);
        EXPECT_LE(zeros[i], std::max<std::int64_t>(layers[i].units - 1, 0));
      }
    }
  }
}

}  // namespace
}  // namespace podaq
