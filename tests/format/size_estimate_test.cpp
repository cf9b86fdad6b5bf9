#include "podaq/format/size_estimate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "podaq/format/file.h"
#include "podaq/graph/graph.h"
#include "runtime/synthetic_network.h"

namespace podaq::test {
namespace {

// Codes as training leaves them: normally distributed, the largest at the end of the range, the smallest pruned.
void fill(Tensor& weight, double sparsity, int bits, std::mt19937& engine) {
  std::normal_distribution<double> normal;
  std::vector<double> numbers(weight.bytes.size());
  for (double& number : numbers) number = normal(engine);
  std::vector<double> magnitudes = numbers;
  for (double& magnitude : magnitudes) magnitude = std::abs(magnitude);
  std::sort(magnitudes.begin(), magnitudes.end());
  const double threshold = magnitudes[static_cast<std::size_t>(sparsity * static_cast<double>(numbers.size()))];
  const int limit = (1 << (bits - 1)) - 1;
  weight.bits = bits;
  auto codes = elements<std::int8_t>(weight);
  for (std::size_t i = 0; i < codes.size(); ++i)
    codes[i] = std::abs(numbers[i]) < threshold
                   ? std::int8_t{0}
                   : static_cast<std::int8_t>(std::lround(numbers[i] / magnitudes.back() * limit));
}

Graph network(std::int64_t channels, double sparsity, int bits) {
  runtime_detail::NetworkBuilder net({2, 64});
  net.conv(channels, 3);
  net.conv(channels, 3);
  net.max_pool();
  net.flatten();
  net.linear(32);
  net.linear(8, true);
  Graph graph = net.finish();
  std::mt19937 engine(3);
  for (auto& [name, tensor] : graph.tensors)
    if (tensor.dtype == DType::s8) fill(tensor, sparsity, bits, engine);
  return graph;
}

// What a file holds of tensors: all but the graph's section.
double stored_bytes(const Graph& graph) {
  double bytes = 0;
  for (const FileReport::Section& section : inspect(encode(graph)).sections)
    if (section.name != "graph") bytes += static_cast<double>(section.stored_bytes);
  return bytes;
}

// Streams of up to 256 KiB meet the adaptive coder, larger ones zstd.
TEST(SizeEstimate, IsWithinTenPercentOfWhatTheFileHolds) {
  for (const std::int64_t channels : {16, 96})
    for (const double sparsity : {0.0, 0.5, 0.8, 0.95})
      for (const int bits : {8, 6, 4, 3, 2}) {
        const Graph graph = network(channels, sparsity, bits);
        const double stored = stored_bytes(graph);
        EXPECT_NEAR(estimate_stored_bytes(graph), stored, 0.10 * stored)
            << channels << " channels, sparsity " << sparsity << ", " << bits << " bits";
      }
}

TEST(SizeEstimate, AddsUpOverTensors) {
  const Graph graph = network(16, 0.8, 4);
  double sum = 0;
  for (const auto& [name, tensor] : graph.tensors) sum += estimate_stored_bytes(tensor);
  EXPECT_DOUBLE_EQ(estimate_stored_bytes(graph), sum);
}

TEST(SizeEstimate, FallsWithSparsityAndBits) {
  const auto bytes = [](double sparsity, int bits) { return estimate_stored_bytes(network(32, sparsity, bits)); };
  EXPECT_LT(bytes(0.9, 8), bytes(0.5, 8));
  EXPECT_LT(bytes(0.5, 8), bytes(0.0, 8));
  EXPECT_LT(bytes(0.5, 4), bytes(0.5, 6));
  EXPECT_LT(bytes(0.5, 6), bytes(0.5, 8));
}

// A mask of dead channels takes little, whichever way round they lie.
TEST(SizeEstimate, SeesRowsAndColumnsOfZeros) {
  const auto bytes_of = [](auto is_zero) {
    std::mt19937 engine(4);
    std::vector<std::int8_t> codes(std::size_t{64} * 64);
    for (std::size_t i = 0; i < codes.size(); ++i)
      codes[i] = is_zero(i / 64, i % 64) ? std::int8_t{0} : static_cast<std::int8_t>(engine() % 100 + 1);
    return estimate_stored_bytes(make_tensor<std::int8_t>(DType::s8, {64, 64}, codes));
  };
  const double scattered =
      bytes_of([](std::size_t row, std::size_t column) { return (row * 7 + column * 5) % 2 == 0; });
  EXPECT_LT(bytes_of([](std::size_t row, std::size_t) { return row % 2 == 0; }), scattered - 300);
  EXPECT_LT(bytes_of([](std::size_t, std::size_t column) { return column % 2 == 0; }), scattered - 300);
}

TEST(SizeEstimate, EmptyTensorsTakeNothing) {
  EXPECT_EQ(estimate_stored_bytes(make_tensor<std::int8_t>(DType::s8, {0, 4}, {})), 0.0);
  EXPECT_EQ(estimate_stored_bytes(Graph{}), 0.0);
}

}  // namespace
}  // namespace podaq::test
