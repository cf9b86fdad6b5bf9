#include "podaq/quantize/calibrate.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "compress/network_builder.h"
#include "podaq/core/error.h"
#include "quantize/post_training.h"

namespace podaq {
namespace {

TEST(Calibrate, ObservesWhatTheFloatNetworkComputesInEvalModeAndChangesNothing) {
  torch::manual_seed(1);
  const auto model = test::small_classifier();
  test::unsettle_batch_norms(*model);
  const std::vector<CalibrationBatch> batches = test::random_batches(*model, 3);
  const torch::Tensor statistics = model->tensor("norm0.running_mean").clone();

  // The extremes of a float value, by a hook of our own.
  model->eval();
  double largest = 0;
  for (const Step& step : model->steps())
    if (model->graph().values[step.output].name == "relu1.out")
      model->set_value_hook(step.output, [&](const torch::Tensor& value, bool) {
        largest = std::max(largest, value.max().item<double>());
        return value;
      });
  const torch::Tensor plain = test::outputs(*model, batches);
  model->clear_hooks();

  model->train();
  NetworkQuantizer quantizer = test::quantizer_of(*model, {.bits = 8});
  calibrate(*model, quantizer, batches);
  EXPECT_TRUE(model->is_training());
  EXPECT_EQ(quantizer.ranges().at("relu1.out").maximum, largest) << "rounding upstream would have moved it";
  EXPECT_TRUE(model->tensor("norm0.running_mean").equal(statistics));
  const torch::Tensor rounded = test::outputs(*model, batches);
  EXPECT_FALSE(rounded.equal(plain));
  EXPECT_LT((rounded - plain).abs().max().item<double>(), 0.05 * plain.abs().max().item<double>());
}

// C17: TinyNeuralNetwork #375.
TEST(Calibrate, RefusesNoBatches) {
  const auto model = test::small_classifier();
  NetworkQuantizer quantizer = test::quantizer_of(*model, {.bits = 8});
  try {
    calibrate(*model, quantizer, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("no data observed"), std::string::npos) << error.what();
  }
}

TEST(Calibrate, ObservesAgainAfterAFailedRun) {
  const auto model = test::small_classifier();
  NetworkQuantizer quantizer = test::quantizer_of(*model, {.bits = 8});
  const std::vector<CalibrationBatch> wrong = {{torch::randn({4, 3, 16})}};
  EXPECT_THROW(calibrate(*model, quantizer, wrong), Error);
  calibrate(*model, quantizer, test::random_batches(*model, 1));
  EXPECT_TRUE(quantizer.ranges().at("input").is_observed);
}

}  // namespace
}  // namespace podaq
