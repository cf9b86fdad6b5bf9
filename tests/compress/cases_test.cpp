#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>

#include "compress/agreement.h"
#include "compress/training_loop.h"
#include "podaq/capture/capture.h"
#include "podaq/compress/compressor.h"
#include "podaq/quantize/fake_quantize.h"
#include "support/temporary_folder.h"

namespace podaq {
namespace {

struct NetWithoutBias : torch::nn::Module {
  NetWithoutBias() {
    register_module("conv", conv);
    register_module("norm", norm);
    register_module("linear", linear);
  }

  torch::Tensor forward(const torch::Tensor& x) {
    return linear->forward(torch::relu(norm->forward(conv->forward(x))).mean(-1));
  }

  torch::nn::Conv1d conv{torch::nn::Conv1dOptions(2, 8, 3).bias(false)};
  torch::nn::BatchNorm1d norm{8};
  torch::nn::Linear linear{torch::nn::LinearOptions(8, 4).bias(false)};
};

void expect_four_defined_parameters(const GraphModule& model) {
  EXPECT_EQ(model.parameters().size(), 4U);
  for (const auto& item : model.named_parameters()) EXPECT_TRUE(item.value().defined()) << item.key();
}

// C01: pytorch #30508, a layer without bias leaves an undefined tensor that breaks moving the module, then the
// optimizer.
TEST(Case01, LayersWithoutBiasTrainCloneCheckpointAndConvert) {
  torch::manual_seed(1);
  const auto model = capture(std::make_shared<NetWithoutBias>(), torch::randn({2, 2, 16}));
  model->to(torch::kDouble);
  model->to(torch::kFloat);
  expect_four_defined_parameters(*model);

  const Recipe recipe{.epochs = {.quantize = 1}, .quantize = QuantizeRecipe{}};
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.01));
  Compressor compressor(model, recipe);
  compressor.attach(optimizer, {.steps_per_epoch = 3});
  model->train();
  for (int step = 0; step < 3; ++step) {
    test::train_step(*model, optimizer, test::make_batch(16, 2, 16, 4));
    compressor.step();
    expect_four_defined_parameters(*model);
  }

  const auto copy = std::dynamic_pointer_cast<GraphModule>(model->clone());
  expect_four_defined_parameters(*copy);

  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "checkpoint";
  compressor.save_checkpoint(path);
  torch::optim::Adam copy_optimizer(copy->parameters(), torch::optim::AdamOptions(0.5));
  Compressor resumed(copy, recipe);
  resumed.attach(copy_optimizer, {.steps_per_epoch = 3});
  resumed.load_checkpoint(path);
  expect_four_defined_parameters(*copy);

  const Graph graph = resumed.convert();
  EXPECT_EQ(graph, compressor.convert());
  const torch::Tensor x = torch::randn({20, 2, 16});
  for (const test::NodeDistance& distance : test::node_distances(graph, test::record_values(*copy, graph, {x})))
    EXPECT_LE(distance.steps, distance.is_float ? 1e-5 : 1.001) << distance.node;
}

// C22 and design.md 3: the four strategies are four recipes of one mechanism.
TEST(OneMechanism, RunsDensePruneQuantizeAndBothOnTheSameNetwork) {
  for (const bool prunes : {false, true})
    for (const bool quantizes : {false, true}) {
      torch::manual_seed(2);
      const auto model = capture(std::make_shared<NetWithoutBias>(), torch::randn({2, 2, 16}));
      torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
      Recipe recipe{.epochs = {.dense = 1}};
      if (prunes) {
        recipe.epochs.prune = 1;
        recipe.prune = PruneRecipe{.sparsity = 0.5};
      }
      if (quantizes) {
        recipe.epochs.quantize = 1;
        recipe.quantize = QuantizeRecipe{};
      }
      Compressor compressor(model, recipe);
      compressor.attach(optimizer, {.steps_per_epoch = 6});
      test::run_recipe(*model, optimizer, compressor, 6, [] { return test::make_batch(16, 2, 16, 4); });
      const Graph graph = compressor.convert();
      const Tensor& weight = tensor_at(graph, "conv.weight");
      EXPECT_EQ(weight.dtype, quantizes ? DType::s8 : DType::f32);
      EXPECT_EQ((model->tensor("conv.weight") == 0).sum().item<std::int64_t>(), prunes ? 24 : 0);

      model->eval();
      const torch::NoGradGuard no_grad;
      const torch::Tensor x = torch::randn({10, 2, 16});
      const torch::Tensor expected = model->forward(x);
      EXPECT_LT((test::run_graph(graph, {x}).at(0) - expected).abs().max().item<double>(),
                0.03 * expected.abs().max().item<double>());
    }
}

}  // namespace
}  // namespace podaq
