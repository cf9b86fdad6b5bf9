#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstddef>
#include <optional>

#include "compress/network_builder.h"
#include "compress/training_loop.h"
#include "podaq/compress/compressor.h"
#include "podaq/format/file.h"

namespace podaq {
namespace {

constexpr std::size_t weights_of_network = 32 * 2 * 3 + 32 * 32 * 3 + 4 * 32;

std::size_t file_bytes(double sparsity, std::optional<int> weight_bits, Pattern pattern = UnstructuredPattern{}) {
  torch::manual_seed(41);
  test::NetworkBuilder net;
  ValueId x = net.relu(net.conv(net.input("input", {2, 16}), "first", 32, 3), "relu0");
  x = net.relu(net.conv(x, "second", 32, 3), "relu1");
  const auto model = net.build({net.linear(net.apply(GlobalMean{}, "mean", {x}), "last", 4)});
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  Recipe recipe{.epochs = {.prune = 1, .recover = 1},
                .prune = PruneRecipe{.sparsity = sparsity, .pattern = std::move(pattern)}};
  if (weight_bits) {
    recipe.epochs.quantize = 1;
    recipe.quantize = QuantizeRecipe{.weight_bits = *weight_bits};
  }
  Compressor compressor(model, recipe);
  compressor.attach(optimizer, {.steps_per_epoch = 3});
  test::run_recipe(*model, optimizer, compressor, 3, [] { return test::make_batch(16, 2, 16, 4); });
  return encode(compressor.convert()).size();
}

// tfmot #391, #611, #173; sparseml #2164: a pruned model is no smaller.
TEST(FileSize, FallsWithSparsityAndWithFewerBits) {
  const std::size_t dense = file_bytes(0, std::nullopt);
  const std::size_t codes = file_bytes(0, 8);
  const std::size_t half = file_bytes(0.5, 8);
  const std::size_t sparse = file_bytes(0.9, 8);
  EXPECT_GT(dense, 3 * weights_of_network) << "random floats hardly shrink";
  EXPECT_LT(codes, dense * 2 / 5);
  EXPECT_LT(half, codes - weights_of_network / 4) << "half of the codes for a bit a weight";
  EXPECT_LT(sparse, half - weights_of_network / 4);
  EXPECT_LT(file_bytes(0.9, std::nullopt), dense / 4) << "float weights are pruned too";
  EXPECT_LT(file_bytes(0.9, 4), sparse);
  EXPECT_LT(file_bytes(0.9, 8, BlockPattern{4, 1}), sparse) << "a mask of blocks takes a quarter";
}

}  // namespace
}  // namespace podaq
