#include "podaq/prune/channel_removal.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "podaq/core/error.h"
#include "podaq/prune/pruner.h"
#include "podaq/quantize/network_quantizer.h"
#include "podaq/training/tensor_cut.h"
#include "podaq/training/weight_average.h"
#include "prune/channel_networks.h"

namespace podaq {
namespace {

std::map<std::string, torch::Tensor> tensors_of(const GraphModule& model) {
  std::map<std::string, torch::Tensor> tensors;
  for (const auto& item : model.named_parameters()) tensors.emplace(item.key(), item.value());
  for (const auto& item : model.named_buffers()) tensors.emplace(item.key(), item.value());
  return tensors;
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const std::string& kind, const GraphModule& model) {
  using namespace torch::optim;
  const std::vector<torch::Tensor> parameters = model.parameters();
  if (kind == "Adam") return std::make_unique<Adam>(parameters, AdamOptions(1e-3).amsgrad(true));
  if (kind == "AdamW") return std::make_unique<AdamW>(parameters, AdamWOptions(1e-3));
  if (kind == "RMSprop")
    return std::make_unique<RMSprop>(parameters, RMSpropOptions(1e-4).momentum(0.9).centered(true));
  if (kind == "Adagrad") return std::make_unique<Adagrad>(parameters, AdagradOptions(1e-3));
  return std::make_unique<SGD>(parameters, SGDOptions(0.01).momentum(0.9).weight_decay(1e-3).nesterov(true));
}

void train(GraphModule& model, torch::optim::Optimizer& optimizer, std::uint64_t seed) {
  torch::manual_seed(seed);
  const torch::Tensor samples = torch::randn({16, 3, 12});
  const torch::Tensor labels = torch::randint(4, {16}, torch::kLong);
  model.train();
  optimizer.zero_grad();
  torch::nn::functional::cross_entropy(model.forward(samples), labels).backward();
  optimizer.step();
}

// A network that has trained a little and half of whose channels are pruned.
struct PrunedRun {
  std::shared_ptr<GraphModule> model;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  Pruner pruner;

  PrunedRun(int seed, const std::string& kind)
      : model(test::channel_network(static_cast<std::uint64_t>(seed))),
        optimizer(make_optimizer(kind, *model)),
        pruner(*model, {{.layers = weighted_layers(model->graph()), .sparsity = 0.5}}, {.pattern = ChannelPattern{}}) {
    hold_biases_of_convolutions();
    for (std::uint64_t step = 0; step < 3; ++step) train(*model, *optimizer, step);
    pruner.update(*model, *optimizer, 3);
  }

  // Where a batch norm takes a bias away, the bias's gradient is rounding alone, which adaptive optimizers blow up to
  // full steps of either sign.
  void hold_biases_of_convolutions() const {
    for (const Node& node : model->graph().nodes)
      if (std::holds_alternative<Conv>(node.op) && !node.tensors[1].empty())
        model->tensor(node.tensors[1]).set_requires_grad(false);
  }

  SmallerGraph remove() {
    SmallerGraph smaller = without_pruned_channels(*model, pruner.masks());
    remove_channels(*model, *optimizer, smaller);
    pruner.remove_channels(smaller);
    return smaller;
  }
};

void expect_close(const torch::Tensor& a, const torch::Tensor& b, const std::string& what) {
  ASSERT_EQ(a.sizes(), b.sizes()) << what;
  EXPECT_TRUE(torch::allclose(a.to(torch::kDouble), b.to(torch::kDouble), 1e-3, 2e-5))
      << what << " differs by " << (a - b).abs().max().item<double>();
}

class RemovedChannels : public testing::TestWithParam<int> {};

// A masked channel is 0 wherever a weight reads it, so that its removal changes sums by their rounding alone.
TEST_P(RemovedChannels, ChangeNoOutputInTrainingOrEvaluation) {
  PrunedRun run(GetParam(), "SGD");
  const auto whole = std::dynamic_pointer_cast<GraphModule>(run.model->clone());
  const std::size_t weights_before = run.model->tensor("stem.weight").numel();
  const SmallerGraph smaller = run.remove();
  ASSERT_FALSE(smaller.cuts.empty());
  EXPECT_LE(static_cast<std::size_t>(run.model->tensor("stem.weight").numel()), weights_before);
  const torch::Tensor samples = torch::randn({8, 3, 12});
  for (const bool is_training : {true, false}) {
    whole->train(is_training);
    run.model->train(is_training);
    expect_close(run.model->forward(samples), whole->forward(samples), is_training ? "training" : "evaluation");
  }
  for (const auto& [name, tensor] : tensors_of(*run.model))
    expect_close(
        tensor,
        smaller.cuts.contains(name) ? cut_tensor(whole->tensor(name), smaller.cuts.at(name)) : whole->tensor(name),
        name);
  EXPECT_NO_THROW(verify(run.model->snapshot()));
  for (const Value& value : run.model->graph().values) EXPECT_GT(element_count(value.shape), 0) << value.name;
}

TEST_P(RemovedChannels, LeaveTheCapturedModulesTensorsAlone) {
  PrunedRun run(GetParam(), "SGD");
  const std::map<std::string, torch::Tensor> shared = tensors_of(*run.model);
  std::map<std::string, torch::Tensor> copies;
  for (const auto& [name, tensor] : shared) copies.emplace(name, tensor.detach().clone());
  run.model->tensor("head.bias").set_requires_grad(false);
  run.model->eval();
  const SmallerGraph smaller = run.remove();
  EXPECT_FALSE(run.model->is_training());
  EXPECT_EQ(run.model->tensor("stem.weight").requires_grad(), true);
  EXPECT_EQ(run.model->tensor("head.bias").requires_grad(), false);
  train(*run.model, *run.optimizer, 9);
  std::vector<std::string> names;
  for (const auto& item : run.model->named_parameters()) names.push_back(item.key());
  for (const auto& item : run.model->named_buffers()) names.push_back(item.key());
  EXPECT_EQ(names.size(), shared.size());
  for (const auto& [name, cuts] : smaller.cuts) EXPECT_TRUE(test::same_bits(shared.at(name), copies.at(name))) << name;
}

INSTANTIATE_TEST_SUITE_P(Networks, RemovedChannels, testing::Range(0, 40));

class OptimizerAfterRemoval : public testing::TestWithParam<std::string> {};

// numerics.md 3, complaint 15: filter pruning must slice scales, batch norms, masks and momentum.
TEST_P(OptimizerAfterRemoval, StepsAsItWouldHaveOnTheMaskedNetwork) {
  for (int seed = 0; seed < 8; ++seed) {
    PrunedRun whole(seed, GetParam());
    PrunedRun small(seed, GetParam());
    const SmallerGraph smaller = small.remove();
    for (std::uint64_t step = 10; step < 12; ++step) {
      train(*whole.model, *whole.optimizer, step);
      apply_masks(*whole.model, whole.pruner.masks());
      train(*small.model, *small.optimizer, step);
      apply_masks(*small.model, small.pruner.masks());
    }
    for (const auto& [name, cuts] : smaller.cuts)
      expect_close(small.model->tensor(name), cut_tensor(whole.model->tensor(name), cuts), name);
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, OptimizerAfterRemoval,
                         testing::Values("SGD", "Adam", "AdamW", "RMSprop", "Adagrad"));

TEST(RemoveChannels, RefusesAnOptimizerOfUnknownStateAndChangesNothing) {
  const auto model = test::channel_network(3);
  torch::optim::LBFGS optimizer(model->parameters());
  Pruner pruner(*model, {{.layers = weighted_layers(model->graph()), .sparsity = 0.5}}, {.pattern = ChannelPattern{}});
  pruner.update(*model, optimizer, 0);
  const torch::Tensor before = model->tensor("stem.weight");
  EXPECT_THROW(remove_channels(*model, optimizer, without_pruned_channels(*model, pruner.masks())), Error);
  EXPECT_TRUE(model->tensor("stem.weight").is_same(before));
}

TEST(RemoveChannels, RefusesAGraphMadeOfAnotherNetwork) {
  const auto model = test::channel_network(3);
  const auto other = test::small_classifier();
  EXPECT_THROW(model->remove_channels({.graph = other->graph(), .cuts = {}}), Error);
}

TEST(RemoveChannels, LeavesTheLastChannelOfAValue) {
  const auto model = test::channel_network(3);
  Masks masks;
  for (const WeightedLayer& layer : weighted_layers(model->graph()))
    masks[layer.weight] = torch::ones_like(model->tensor(layer.weight), torch::kBool);
  EXPECT_THROW(static_cast<void>(without_pruned_channels(*model, masks)), Error);
}

TEST(RemoveChannels, CutsGradientsAveragesAndLearnedSteps) {
  PrunedRun run(0, "SGD");
  Placement placement = place_quantizers(run.model->graph(), run.model->steps(), [](const Node&) { return true; });
  const WeightQuantization learned{.scale = WeightScale::learned};
  NetworkQuantizer quantizer(*run.model, std::move(placement),
                             {.weights = std::vector<WeightQuantization>(run.model->steps().size(), learned)});
  quantizer.enable(*run.model);
  for (std::uint64_t step = 0; step < 2; ++step) {
    train(*run.model, *run.optimizer, step);
    quantizer.learn_steps(*run.model);
    apply_masks(*run.model, run.pruner.masks());
  }
  WeightAverage average(0.5);
  average.update(*run.model);
  const torch::Tensor gradient = run.model->tensor("stem.weight").grad().clone();
  const torch::Tensor steps = quantizer.state().weight_steps.at("stem").steps.detach().clone();
  const SmallerGraph smaller = run.remove();
  quantizer.remove_channels(smaller);
  average.remove_channels(smaller);

  const auto& cuts = smaller.cuts.at("stem.weight");
  EXPECT_TRUE(run.model->tensor("stem.weight").grad().equal(cut_tensor(gradient, cuts)));
  EXPECT_EQ(average.tensors().at("stem.weight").sizes(), run.model->tensor("stem.weight").sizes());
  EXPECT_TRUE(quantizer.state().weight_steps.at("stem").steps.detach().equal(cut_tensor(steps, cuts)));
  EXPECT_NO_THROW(quantizer.require_fitting(quantizer.state()));
  run.model->freeze_batch_norms();  // those of no layer round only then
  train(*run.model, *run.optimizer, 5);
  quantizer.learn_steps(*run.model);
  EXPECT_EQ(quantizer.take_idle(), std::vector<std::string>());
}

}  // namespace
}  // namespace podaq
