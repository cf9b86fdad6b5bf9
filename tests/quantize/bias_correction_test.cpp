#include "podaq/quantize/bias_correction.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "compress/network_builder.h"
#include "quantize/post_training.h"

namespace podaq {
namespace {

torch::Tensor channel_means(const torch::Tensor& outputs) {
  return outputs.to(torch::kDouble).mean(0);
}

TEST(BiasCorrection, TakesOutTheMeanErrorOfEveryOutput) {
  torch::manual_seed(1);
  const auto model = test::small_classifier();
  test::unsettle_batch_norms(*model);
  const std::vector<CalibrationBatch> batches = test::random_batches(*model, 6);
  const torch::Tensor expected = channel_means(test::outputs(*model, batches));
  NetworkQuantizer quantizer = test::quantizer_of(*model, {.bits = 3});
  calibrate(*model, quantizer, batches);
  const double before = (channel_means(test::outputs(*model, batches)) - expected).abs().max().item<double>();
  EXPECT_TRUE(correct_biases(*model, quantizer, batches).empty());
  const double after = (channel_means(test::outputs(*model, batches)) - expected).abs().max().item<double>();
  EXPECT_GT(before, 1e-3) << "3-bit weights shift the means";
  EXPECT_LT(after, 0.02 * before);
}

TEST(BiasCorrection, NamesLayersWithoutABias) {
  test::NetworkBuilder net;
  const ValueId x = net.input("input", {4});
  const auto model = net.build({net.linear(net.relu(net.linear(x, "first", 8, false), "relu"), "second", 3)});
  NetworkQuantizer quantizer = test::quantizer_of(*model, {.bits = 4});
  const std::vector<CalibrationBatch> batches = test::random_batches(*model, 2);
  calibrate(*model, quantizer, batches);
  const torch::Tensor weight = model->tensor("first.weight").detach().clone();
  EXPECT_EQ(correct_biases(*model, quantizer, batches), std::vector<std::string>{"first"});
  EXPECT_TRUE(model->tensor("first.weight").equal(weight));
}

}  // namespace
}  // namespace podaq
