#include "podaq/quantize/adaptive_rounding.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>

#include "compress/network_builder.h"
#include "podaq/core/error.h"
#include "quantize/post_training.h"

namespace podaq {
namespace {

class AdaptiveRounding : public testing::TestWithParam<WeightQuantization> {};

TEST_P(AdaptiveRounding, MovesWeightsOntoCodesThatLoseLess) {
  torch::manual_seed(1);
  const auto model = test::small_classifier();
  test::unsettle_batch_norms(*model);
  {
    const torch::NoGradGuard no_grad;
    model->tensor("conv1.weight").masked_fill_(torch::rand({8, 8, 3}) < 0.5, 0.0);
  }
  const torch::Tensor zeros = model->tensor("conv1.weight") == 0;
  const std::vector<CalibrationBatch> batches = test::random_batches(*model, 4);
  NetworkQuantizer quantizer = test::quantizer_of(*model, GetParam());
  calibrate(*model, quantizer, batches);

  const std::vector<RoundingReport> reports = round_adaptively(*model, quantizer, batches, {.iterations = 300});
  ASSERT_EQ(reports.size(), 3U);
  std::int64_t moved = 0;
  double nearest = 0;
  double adaptive = 0;
  for (const RoundingReport& report : reports) {
    EXPECT_LE(report.adaptive, report.nearest) << report.layer;
    moved += report.moved;
    nearest += report.nearest;
    adaptive += report.adaptive;
  }
  EXPECT_GT(moved, 0);
  EXPECT_LT(adaptive, 0.95 * nearest);
  EXPECT_TRUE(model->tensor("conv1.weight").masked_select(zeros).eq(0).all().item<bool>()) << "masked weights moved";

  // Ordinary rounding keeps every weight where it was put.
  for (std::size_t i = 0; i < model->steps().size(); ++i) {
    const Node& node = model->graph().nodes[model->steps()[i].node];
    if (node.name != "conv1" && node.name != "conv0" && node.name != "classifier") continue;
    const auto report = std::ranges::find(reports, node.name, &RoundingReport::layer);
    if (report->moved == 0) continue;
    const LayerParameters folded = model->folded_parameters(model->steps()[i]);
    const torch::Tensor rounded = quantizer.rounded(i, folded).weight;
    EXPECT_TRUE(torch::allclose(rounded, folded.weight, 1e-5, 1e-7)) << node.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, AdaptiveRounding,
                         testing::Values(WeightQuantization{.bits = 4},
                                         WeightQuantization{.bits = 3, .granularity = WeightGranularity::tensor},
                                         WeightQuantization{.bits = 4, .scale = WeightScale::least_squares},
                                         WeightQuantization{.bits = 2}));

TEST(AdaptiveRoundingOptions, AreRefusedOutOfRangeByName) {
  const auto model = test::small_classifier();
  NetworkQuantizer quantizer = test::quantizer_of(*model, {.bits = 4});
  const std::vector<CalibrationBatch> batches = test::random_batches(*model, 1);
  calibrate(*model, quantizer, batches);
  const auto refusal = [&](const AdaptiveRoundingOptions& options) -> std::string {
    try {
      (void)round_adaptively(*model, quantizer, batches, options);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_NE(refusal({.iterations = 0}).find("iterations"), std::string::npos);
  EXPECT_NE(refusal({.learning_rate = 0}).find("learning_rate"), std::string::npos);
  EXPECT_NE(refusal({.regularization = -1}).find("regularization"), std::string::npos);
}

}  // namespace
}  // namespace podaq
