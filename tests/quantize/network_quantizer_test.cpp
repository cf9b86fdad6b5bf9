#include "podaq/quantize/network_quantizer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "compress/network_builder.h"
#include "podaq/core/error.h"

namespace podaq {
namespace {

NetworkQuantizer quantizer_for(GraphModule& model, ObserverOptions observer = {}) {
  Placement placement = place_quantizers(model.graph(), model.steps(), [](const Node&) { return true; });
  NetworkQuantizer quantizer(model, std::move(placement),
                             {.weights = std::vector<WeightQuantization>(model.steps().size()), .observer = observer});
  quantizer.enable(model);
  return quantizer;
}

// Lightning #8507: observers learn from validation data.
TEST(NetworkQuantizer, ObservesInTrainingOnlyAndNotOnceFrozen) {
  torch::manual_seed(1);
  const auto model = test::small_classifier();
  NetworkQuantizer quantizer = quantizer_for(*model);
  model->train();
  model->forward(torch::randn({8, 2, 16}));
  const auto seen = quantizer.ranges();
  EXPECT_TRUE(seen.at("input").is_observed);
  model->eval();
  model->forward(torch::randn({8, 2, 16}) * 100);
  EXPECT_EQ(quantizer.ranges(), seen);
  model->train();
  quantizer.freeze_observers();
  model->forward(torch::randn({8, 2, 16}) * 100);
  EXPECT_EQ(quantizer.ranges(), seen);
  quantizer.freeze_observers(false);
  model->forward(torch::randn({8, 2, 16}) * 100);
  EXPECT_NE(quantizer.ranges(), seen);
}

TEST(NetworkQuantizer, GivesSharedQuantizersTheUnionOfTheirRanges) {
  test::NetworkBuilder net;
  const ValueId a = net.input("a", {1, 4});
  const ValueId b = net.input("b", {1, 4});
  const ValueId joined = net.apply(Concat{.axis = 0}, "joined", {a, b});
  const auto model = net.build({net.conv(joined, "last", 2, 1)});
  const NetworkQuantizer quantizer = quantizer_for(*model);
  model->train();
  for (int batch = 0; batch < 5; ++batch)
    model->forward({torch::tensor({0.0F, 1.0F, 0.5F, 0.25F}).reshape({1, 1, 4}),
                    torch::tensor({-20.0F, 20.0F, 0.0F, 1.0F}).reshape({1, 1, 4})});
  ASSERT_EQ(quantizer.placement().quantizers.size(), 1U);
  EXPECT_NEAR(quantizer.qparams(0)->scale, 40.0 / 255, 1e-6);
}

TEST(NetworkQuantizer, RoundsWhatTheNetworkComputesAndStopsWhenDisabled) {
  torch::manual_seed(2);
  const auto model = test::small_classifier();
  const torch::Tensor x = torch::randn({4, 2, 16});
  model->eval();
  const torch::Tensor plain = model->forward(x);
  const NetworkQuantizer quantizer = quantizer_for(*model);
  EXPECT_TRUE(test::same_bits(model->forward(x), plain)) << "nothing observed yet, so nothing is rounded";
  model->train();
  model->forward(x);
  model->eval();
  const torch::Tensor rounded = model->forward(x);
  EXPECT_FALSE(rounded.equal(plain));
  quantizer.disable(*model);
  EXPECT_TRUE((model->forward(x) - rounded).abs().max().item<float>() < 0.2);
}

// C16: fake quantization was off on some layers while their observers ran on.
TEST(NetworkQuantizer, NoticesLayersWhoseHooksWereRemoved) {
  const auto model = test::small_classifier();
  NetworkQuantizer quantizer = quantizer_for(*model);
  model->train();
  model->forward(torch::randn({4, 2, 16}));
  EXPECT_TRUE(quantizer.take_idle().empty());
  for (const Step& step : model->steps())
    if (model->graph().nodes[step.node].name == "conv1") model->set_parameter_hook(step.output, {});
  model->forward(torch::randn({4, 2, 16}));
  EXPECT_EQ(quantizer.take_idle(), std::vector<std::string>{"conv1"});
}

TEST(NetworkQuantizer, PutsRangesBack) {
  torch::manual_seed(3);
  const auto model = test::small_classifier();
  const NetworkQuantizer first = quantizer_for(*model);
  model->train();
  model->forward(torch::randn({8, 2, 16}));
  NetworkQuantizer second = quantizer_for(*model);
  second.set_state(first.state());
  EXPECT_EQ(second.ranges(), first.ranges());
  for (std::size_t q = 0; q < first.placement().quantizers.size(); ++q)
    EXPECT_EQ(second.qparams(q), first.qparams(q)) << q;
  QuantizerState foreign = first.state();
  foreign.ranges["nowhere"] = {};
  EXPECT_THROW(second.set_state(foreign), Error);
  foreign = first.state();
  foreign.ranges.erase("input");
  EXPECT_THROW(second.set_state(foreign), Error);
  EXPECT_EQ(second.ranges(), first.ranges());
}

NetworkQuantizer learning_quantizer(GraphModule& model, double learning_rate) {
  Placement placement = place_quantizers(model.graph(), model.steps(), [](const Node&) { return true; });
  NetworkQuantizer quantizer(
      model, std::move(placement),
      {.weights = std::vector<WeightQuantization>(model.steps().size(), {.bits = 4, .scale = WeightScale::learned}),
       .learns_activation_steps = true,
       .step_learning_rate = learning_rate});
  quantizer.enable(model);
  return quantizer;
}

void train_step(GraphModule& model, NetworkQuantizer& quantizer) {
  model.train();
  model.zero_grad();
  model.forward(torch::randn({8, 2, 16})).square().mean().backward();
  quantizer.learn_steps(model);
}

TEST(NetworkQuantizer, LearnsStepsUntilFrozenAndOnlyWhileTraining) {
  torch::manual_seed(4);
  const auto model = test::small_classifier();
  NetworkQuantizer quantizer = learning_quantizer(*model, 0.1);
  train_step(*model, quantizer);
  const auto steps_of = [&] {
    const std::map<std::string, LearnedSteps> steps = quantizer.state().weight_steps;
    return steps.at("conv1").steps.detach().clone();
  };
  const torch::Tensor first = steps_of();
  EXPECT_TRUE((first >= smallest_step).all().item<bool>());
  const auto seen = quantizer.ranges();
  train_step(*model, quantizer);
  EXPECT_FALSE(steps_of().equal(first));
  EXPECT_EQ(quantizer.ranges(), seen) << "ranges stay once steps learn, and with them zero points";
  quantizer.freeze_observers();
  const torch::Tensor frozen = steps_of();
  train_step(*model, quantizer);
  model->eval();
  model->forward(torch::randn({8, 2, 16}));
  EXPECT_TRUE(steps_of().equal(frozen));
}

// fvcore PR #52, sparseml PR #2201: per-channel parameters of another shape on load.
TEST(NetworkQuantizer, RefusesStepsOfAnotherNumberByName) {
  torch::manual_seed(5);
  const auto model = test::small_classifier();
  NetworkQuantizer quantizer = learning_quantizer(*model, 0.1);
  train_step(*model, quantizer);
  QuantizerState state = quantizer.state();
  state.weight_steps.at("conv1") = begin_steps(std::vector<float>(3, 1.0F));
  try {
    quantizer.set_state(state);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("conv1"), std::string::npos) << error.what();
  }
}

TEST(NetworkQuantizer, RefusesBitsOutsideTheirRangeByName) {
  const auto model = test::small_classifier();
  const Placement placement = place_quantizers(model->graph(), model->steps(), [](const Node&) { return true; });
  const std::vector<WeightQuantization> weights(model->steps().size());
  for (const int bits : {3, 9}) {
    Placement other = placement;
    other.quantizers.at(1).bits = bits;
    EXPECT_THROW(NetworkQuantizer(*model, other, {.weights = weights}), Error);
  }
  const std::vector<WeightQuantization> one_bit(model->steps().size(), {.bits = 1});
  EXPECT_THROW(NetworkQuantizer(*model, placement, {.weights = one_bit}), Error);
}

}  // namespace
}  // namespace podaq
