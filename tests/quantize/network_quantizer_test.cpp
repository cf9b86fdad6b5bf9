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
                             {.weight_bits = std::vector<int>(model.steps().size(), 8), .observer = observer});
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
  second.set_ranges(first.ranges());
  EXPECT_EQ(second.ranges(), first.ranges());
  for (std::size_t q = 0; q < first.placement().quantizers.size(); ++q)
    EXPECT_EQ(second.qparams(q), first.qparams(q)) << q;
  EXPECT_THROW(second.set_ranges({{"nowhere", {}}}), Error);
}

TEST(NetworkQuantizer, RefusesBitsOutsideTheirRangeByName) {
  const auto model = test::small_classifier();
  const Placement placement = place_quantizers(model->graph(), model->steps(), [](const Node&) { return true; });
  const std::vector<int> eight(model->steps().size(), 8);
  EXPECT_THROW(NetworkQuantizer(*model, placement, {.activation_bits = 3, .weight_bits = eight}), Error);
  EXPECT_THROW(NetworkQuantizer(*model, placement, {.activation_bits = 9, .weight_bits = eight}), Error);
  EXPECT_THROW(NetworkQuantizer(*model, placement, {.weight_bits = std::vector<int>(model->steps().size(), 1)}), Error);
}

}  // namespace
}  // namespace podaq
