#include "amc/networks.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <vector>

#include "compress/conversion.h"
#include "podaq/capture/capture.h"
#include "podaq/compress/compressor.h"
#include "podaq/study/task.h"

namespace podaq::amc {
namespace {

std::int64_t weights_of(const Graph& graph) {
  std::int64_t count = 0;
  for (const WeightedLayer& layer : weighted_layers(graph))
    count += element_count(tensor_at(graph, layer.weight).shape);
  return count;
}

void expect_quantized(const std::shared_ptr<GraphModule>& model, std::int64_t frame_length, std::int64_t weights) {
  torch::manual_seed(7);
  EXPECT_EQ(weights_of(model->graph()), weights);
  // Without a batch first, the running statistics of fresh batch norms let values fade away layer by layer.
  model->train();
  for (int batch = 0; batch < 20; ++batch) (void)model->forward(torch::randn({32, 2, frame_length}));
  const Recipe recipe{.quantize = QuantizeRecipe{}};
  Compressor compressor(model, recipe);
  const std::vector<torch::Tensor> batches = {torch::randn({32, 2, frame_length})};
  compressor.calibrate(batches);
  test::expect_agreement(model, compressor);
}

// reference: the challenge's VGG10 has 159 104 weights at 1024 samples, BacalhauNet 9 318 (24 classes both).
TEST(AmcNetworks, AreCapturedQuantizedAndOfTheSizeOfTheirModels) {
  const torch::Tensor frames = torch::zeros({2, 2, 1024});
  expect_quantized(capture(std::make_shared<Vgg10>(1024, 24), frames), 1024, 159104);
  expect_quantized(capture(std::make_shared<ResNet>(1024, 24), frames), 1024, 163904);
  expect_quantized(capture(std::make_shared<SeparableNet>(24), frames), 1024, 9318);
  expect_quantized(capture(std::make_shared<UltraLightNet>(24), frames), 1024, 8704);
  expect_quantized(capture(std::make_shared<ResNet>(128, 11), torch::zeros({2, 2, 128})), 128, 104896);
}

TEST(AmcNetworks, HaveNames) {
  for (const auto& [name, kind] : network_kinds()) EXPECT_EQ(name_of(kind), name);
}

}  // namespace
}  // namespace podaq::amc
