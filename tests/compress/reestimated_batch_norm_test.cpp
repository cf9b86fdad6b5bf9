#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <utility>

#include "compress/conversion.h"
#include "compress/network_builder.h"
#include "podaq/compress/compressor.h"

namespace podaq {
namespace {

// Statistics of other data than the weights, their scales and the batch norms' first statistics belong to.
void estimate_again(GraphModule& model) {
  const torch::NoGradGuard no_grad;
  model.freeze_batch_norms(false);
  model.train();
  for (int batch = 0; batch < 40; ++batch) static_cast<void>(model.forward(3.0 * torch::randn({16, 2, 16}) + 1.0));
}

class BatchNormsEstimatedAgain : public testing::TestWithParam<std::pair<WeightScale, WeightGranularity>> {};

// brevitas #388, #415; aimet #1974: folding batch norms that were estimated again after training costs accuracy, or all
// of it.
TEST_P(BatchNormsEstimatedAgain, FoldIntoWhatTheNetworkComputesAndNearTheFloatNetwork) {
  const auto& [scale, granularity] = GetParam();
  const auto model = test::small_classifier();
  const QuantizeRecipe recipe{.weight_scale = scale,
                              .weight_granularity = granularity,
                              .step_learning_rate = 1e-4,
                              .observer = MinMaxObserver{}};
  const Compressor compressor = test::quantized(model, recipe, [&] { estimate_again(*model); });
  const Graph graph = test::expect_agreement(model, compressor);
  const torch::Tensor x = 3.0 * torch::randn({32, 2, 16}) + 1.0;
  const torch::Tensor got = test::run_graph(graph, {x}).at(0);
  model->clear_hooks();
  model->eval();
  const torch::NoGradGuard no_grad;
  const torch::Tensor expected = model->forward(x);
  EXPECT_LT((got - expected).abs().mean().item<double>(), 0.03 * expected.abs().max().item<double>());
}

INSTANTIATE_TEST_SUITE_P(All, BatchNormsEstimatedAgain,
                         testing::Values(std::pair(WeightScale::largest, WeightGranularity::channel),
                                         std::pair(WeightScale::largest, WeightGranularity::tensor),
                                         std::pair(WeightScale::least_squares, WeightGranularity::channel),
                                         std::pair(WeightScale::learned, WeightGranularity::channel),
                                         std::pair(WeightScale::learned, WeightGranularity::tensor)));

}  // namespace
}  // namespace podaq
