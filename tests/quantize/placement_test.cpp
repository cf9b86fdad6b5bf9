#include "podaq/quantize/placement.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>

#include "compress/network_builder.h"
#include "podaq/core/error.h"

namespace podaq {
namespace {

using test::NetworkBuilder;

const LayerChoice every_layer = [](const Node&) { return true; };

struct Placed {
  std::shared_ptr<GraphModule> model;
  Placement placement;

  Placed(std::shared_ptr<GraphModule> network, const LayerChoice& choose)
      : model(std::move(network)), placement(place_quantizers(model->graph(), model->steps(), choose)) {}

  [[nodiscard]] std::optional<std::size_t> at(const std::string& value) const {
    for (ValueId id = 0; id < model->graph().values.size(); ++id)
      if (model->graph().values[id].name == value) return placement.quantizer_of[id];
    throw std::logic_error("no value " + value);
  }

  [[nodiscard]] std::vector<std::string> observed() const {
    std::vector<std::string> names;
    for (const PlacedQuantizer& quantizer : placement.quantizers)
      for (const ValueId value : quantizer.observed) names.push_back(model->graph().values[value].name);
    std::sort(names.begin(), names.end());
    return names;
  }
};

MaxPool pool() {
  return {.kernel = {2}, .stride = {2}, .pads_begin = {0}, .pads_end = {0}, .dilation = {1}};
}

TEST(Placement, PutsOneQuantizerAtInputAndStepOutputsAndNoneAtNetworkOutputs) {
  const Placed placed(test::small_classifier(), every_layer);
  EXPECT_EQ(placed.observed(), (std::vector<std::string>{"input", "mean.out", "relu0.out", "relu1.out"}));
  EXPECT_EQ(placed.at("pool0.out"), placed.at("relu0.out"));
  EXPECT_EQ(placed.at("classifier.out"), std::nullopt);
  EXPECT_EQ(placed.at("conv0.out"), std::nullopt);
}

TEST(Placement, LetsConcatInputsShareAQuantizerThatTheOutputKeeps) {
  NetworkBuilder net;
  const ValueId x = net.input("input", {2, 8});
  const ValueId a = net.relu(net.conv(x, "a", 3, 3), "relu_a");
  const ValueId b = net.apply(pool(), "pool_b", {net.relu(net.conv(x, "b", 3, 3), "relu_b")});
  const ValueId half = net.apply(pool(), "pool_a", {a});
  const ValueId joined = net.apply(Concat{.axis = 0}, "joined", {half, b});
  const Placed placed(net.build({net.conv(joined, "last", 2, 1)}), every_layer);
  for (const char* value : {"relu_a.out", "relu_b.out", "pool_a.out", "pool_b.out"})
    EXPECT_EQ(placed.at(value), placed.at("joined.out")) << value;
  EXPECT_NE(placed.at("input"), placed.at("joined.out"));
  EXPECT_EQ(placed.observed(), (std::vector<std::string>{"input", "relu_a.out", "relu_b.out"}));
}

TEST(Placement, QuantizesTheOtherBranchOfAFusedAddOnly) {
  NetworkBuilder net;
  const ValueId x = net.input("input", {2, 8});
  const ValueId shortcut = net.relu(net.conv(x, "first", 2, 3), "relu1");
  const ValueId sum = net.apply(Add{}, "sum", {net.conv(shortcut, "second", 2, 3), shortcut});
  const ValueId y = net.relu(sum, "relu2");
  const Placed placed(net.build({net.conv(y, "last", 2, 1)}), every_layer);
  EXPECT_EQ(placed.observed(), (std::vector<std::string>{"input", "relu1.out", "relu2.out"}));
  EXPECT_EQ(placed.at("second.out"), std::nullopt);
}

TEST(Placement, LeavesFloatLayersFloatAndQuantizesAfterThemWhereCodesAreRead) {
  const Placed placed(test::small_classifier(), [](const Node& node) { return node.name != "conv0"; });
  EXPECT_EQ(placed.at("input"), std::nullopt);
  EXPECT_TRUE(placed.at("relu0.out").has_value());
  EXPECT_EQ(placed.observed(), (std::vector<std::string>{"mean.out", "relu0.out", "relu1.out"}));
}

TEST(Placement, LeavesOperationsBeforeFloatReadersFloat) {
  const Placed placed(test::small_classifier(), [](const Node& node) { return node.name == "conv0"; });
  EXPECT_EQ(placed.observed(), (std::vector<std::string>{"input"}));
  const Placed none(test::small_classifier(), [](const Node&) { return false; });
  EXPECT_TRUE(none.placement.quantizers.empty());
}

TEST(Placement, KeepsSoftmaxFloatAndGivesStandaloneStepsTheirOwn) {
  NetworkBuilder net;
  const ValueId x = net.input("input", {4});
  const ValueId a = net.linear(x, "a", 4);
  const ValueId activated = net.apply(Activation{.kind = Activation::Kind::silu}, "silu", {a});
  const ValueId product = net.apply(Mul{}, "product", {activated, x});
  const ValueId sum = net.apply(Add{}, "sum", {product, x});
  const ValueId soft = net.apply(Softmax{.axis = 0}, "soft", {sum});
  const ValueId weighted = net.apply(Mul{}, "weighted", {soft, sum});
  const Placed placed(net.build({net.linear(weighted, "last", 2)}), every_layer);
  EXPECT_EQ(placed.observed(), (std::vector<std::string>{"a.out", "input", "product.out", "silu.out", "soft.out",
                                                         "sum.out", "weighted.out"}));
  for (std::size_t i = 0; i < placed.model->steps().size(); ++i)
    EXPECT_EQ(placed.placement.on_codes[i], placed.model->graph().nodes[placed.model->steps()[i].node].name != "soft");
}

TEST(Placement, PrintsALinePerStepAndPerQuantizer) {
  const Placed placed(test::small_classifier(), every_layer);
  const std::string text = to_text(placed.placement, placed.model->graph(), placed.model->steps());
  EXPECT_EQ(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')),
            placed.model->steps().size() + placed.placement.quantizers.size() + 3);
  for (const char* name : {"conv0", "pool1", "classifier"}) EXPECT_NE(text.find(name), std::string::npos);
}

ValueId value_named(const Graph& graph, const std::string& name) {
  for (ValueId id = 0; id < graph.values.size(); ++id)
    if (graph.values[id].name == name) return id;
  throw std::logic_error("no value " + name);
}

Placement overridden(const GraphModule& model, const std::vector<std::string>& stay_float,
                     const std::vector<std::string>& quantized) {
  PlacementOverrides overrides;
  for (const std::string& name : stay_float) overrides.stay_float.insert(value_named(model.graph(), name));
  for (const std::string& name : quantized) overrides.quantized.insert(value_named(model.graph(), name));
  return place_quantizers(model.graph(), model.steps(), every_layer, overrides);
}

TEST(PlacementOverrides, LeaveValuesFloatWithTheStepsThatReadThem) {
  const auto model = test::small_classifier();
  const Placement placement = overridden(*model, {"relu0.out"}, {});
  const Graph& graph = model->graph();
  EXPECT_FALSE(placement.quantizer_of[value_named(graph, "relu0.out")].has_value());
  const std::optional<std::size_t> pooled = placement.quantizer_of[value_named(graph, "pool0.out")];
  ASSERT_TRUE(pooled.has_value()) << "conv1 still reads codes";
  EXPECT_EQ(placement.quantizers[*pooled].observed, std::vector<ValueId>{value_named(graph, "pool0.out")});
}

TEST(PlacementOverrides, QuantizeValuesThatNobodyReadsAsCodes) {
  const auto model = test::small_classifier();
  const ValueId logits = value_named(model->graph(), "classifier.out");
  EXPECT_FALSE(overridden(*model, {}, {}).quantizer_of[logits].has_value());
  EXPECT_TRUE(overridden(*model, {}, {"classifier.out"}).quantizer_of[logits].has_value());
}

TEST(PlacementOverrides, AreRefusedByTheValuesNameWhereImpossible) {
  const auto model = test::small_classifier();
  const auto refusal = [&](const std::vector<std::string>& stay_float, const std::vector<std::string>& quantized) {
    try {
      (void)overridden(*model, stay_float, quantized);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string read_as_codes = refusal({"mean.out"}, {});
  EXPECT_NE(read_as_codes.find("'mean.out'"), std::string::npos) << read_as_codes;
  EXPECT_NE(read_as_codes.find("'classifier'"), std::string::npos) << read_as_codes;
  EXPECT_NE(refusal({}, {"conv0.out"}).find("'conv0.out'"), std::string::npos);
  EXPECT_NE(refusal({"relu0.out"}, {"relu0.out"}).find("both"), std::string::npos);
}

}  // namespace
}  // namespace podaq
