#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "compress/agreement.h"
#include "compress/conversion.h"
#include "compress/network_builder.h"
#include "compress/refusals.h"
#include "compress/training_loop.h"
#include "podaq/compress/compressor.h"
#include "podaq/core/error.h"
#include "podaq/format/file.h"
#include "podaq/prune/selection.h"

namespace podaq {
namespace {

using test::expect_agreement;
using test::make_batch;
using test::NetworkBuilder;
using test::quantized;
using test::random_inputs;
using test::small_classifier;
using test::with_all_channels;

MaxPool pool() {
  return {.kernel = {2}, .stride = {2}, .pads_begin = {0}, .pads_end = {0}, .dilation = {1}};
}

bool holds_integer_weights(const Graph& graph, const std::string& layer) {
  for (const Node& node : graph.nodes)
    if (node.name == layer) return tensor_at(graph, node.tensors.at(0)).dtype == DType::s8;
  throw std::logic_error("no node " + layer);
}

TEST(Convert, AgreesWithinOneStepPerLayerOnAClassifier) {
  const auto model = small_classifier();
  const Compressor compressor = quantized(model);
  const Graph graph = expect_agreement(model, compressor);
  EXPECT_EQ(graph.inputs.size(), 1U);
  EXPECT_EQ(graph.values[graph.inputs[0]].name, "input");
  EXPECT_EQ(graph.values[graph.outputs[0]].name, "classifier.out");
  EXPECT_EQ(graph.metadata.at("recipe_sha256").size(), 64U);
  for (const char* layer : {"conv0", "conv1", "classifier"}) EXPECT_TRUE(holds_integer_weights(graph, layer));
}

TEST(Convert, AgreesOnAFusedResidualAddWithClamp) {
  NetworkBuilder net;
  const ValueId x = net.input("input", {2, 12});
  const ValueId shortcut = net.relu(net.batch_norm(net.conv(x, "first", 6, 3), "norm1"), "relu1");
  const ValueId branch = net.batch_norm(net.conv(shortcut, "second", 6, 3, false), "norm2");
  const ValueId sum = net.relu(net.apply(Add{}, "sum", {branch, shortcut}), "relu2");
  const auto model = net.build({net.linear(net.apply(GlobalMean{}, "mean", {sum}), "last", 3)});
  const Graph graph = expect_agreement(model, quantized(model));
  for (const Node& node : graph.nodes) EXPECT_FALSE(std::holds_alternative<Add>(node.op)) << "the add is not fused";
}

TEST(Convert, AgreesOnAResidualAddThatIsTheNetworksOutput) {
  NetworkBuilder net;
  const ValueId x = net.input("input", {3, 8});
  const ValueId sum = net.apply(Add{}, "sum", {net.conv(x, "conv", 3, 3), x});
  const auto model = net.build({net.relu(sum, "relu")});
  expect_agreement(model, quantized(model));
}

TEST(Convert, AgreesOnStandaloneAddMulAffineClampMeanAndTableActivations) {
  using Kind = Activation::Kind;
  for (const Kind kind : {Kind::sigmoid, Kind::tanh, Kind::silu, Kind::selu, Kind::elu, Kind::leaky_relu,
                          Kind::hard_sigmoid, Kind::hard_swish, Kind::gelu, Kind::gelu_tanh}) {
    NetworkBuilder net;
    const ValueId x = net.input("input", {4, 10});
    const ValueId a = net.conv(x, "a", 4, 3);
    const ValueId active = net.apply(Activation{.kind = kind, .alpha = 0.5F}, "active", {a});
    const ValueId product = net.apply(Mul{}, "product", {active, x});
    const ValueId sum = net.apply(Add{}, "sum", {product, active});
    const ValueId affine = net.apply(Affine{.factor = -1.5F, .offset = 0.25F}, "affine", {sum});
    const ValueId clamped = net.apply(Clamp{.minimum = -1.0F, .maximum = 6.0F}, "clamped", {affine});
    const ValueId averaged =
        net.apply(AvgPool{.kernel = {3}, .stride = {2}, .pads_begin = {1}, .pads_end = {1}}, "averaged", {clamped});
    const ValueId mean = net.apply(GlobalMean{}, "mean", {averaged});
    const ValueId largest = net.apply(GlobalMax{}, "largest", {averaged});
    const ValueId joined = net.apply(Concat{.axis = 0}, "joined", {mean, largest});
    const auto model = net.build({net.linear(joined, "last", 3)});
    expect_agreement(model, quantized(model));
  }
}

// Inputs of one concat share a quantizer, through pools and reshapes too.
TEST(Convert, AgreesOnConcatOfBranchesOfDifferentRange) {
  NetworkBuilder net;
  const ValueId x = net.input("input", {2, 12});
  const ValueId a = net.relu(net.conv(x, "a", 3, 3), "relu_a");
  const ValueId b = net.apply(Affine{.factor = 10.0F, .offset = -3.0F}, "wide", {net.conv(x, "b", 3, 1)});
  const ValueId joined =
      net.apply(Concat{.axis = 0}, "joined", {net.apply(pool(), "pool_a", {a}), net.apply(pool(), "pool_b", {b})});
  const ValueId flat = net.apply(Reshape{.shape = {36}}, "flat", {joined});
  const auto model = net.build({net.linear(flat, "last", 3)});
  const Graph graph = expect_agreement(model, quantized(model));
  std::vector<QParams> shared;
  for (const Value& value : graph.values)
    if (value.name == "pool_a.out" || value.name == "pool_b.out" || value.name == "joined.out" ||
        value.name == "flat.out")
      shared.push_back(value.qparams.value());
  ASSERT_EQ(shared.size(), 4U);
  for (const QParams& q : shared) EXPECT_EQ(q, shared[0]);
}

TEST(Convert, AgreesOnTwoDimensionsGroupsAndDepthwise) {
  NetworkBuilder net;
  const ValueId x = net.input("input", {4, 6, 5});
  ValueId y = net.relu(net.batch_norm(net.conv(x, "grouped", 8, 3, false, 2), "norm1"), "relu1");
  y = net.relu(net.batch_norm(net.conv(y, "depthwise", 8, 3, false, 8), "norm2"), "relu2");
  y = net.conv(y, "pointwise", 5, 1);
  const auto model = net.build({net.linear(net.apply(GlobalMean{}, "mean", {y}), "last", 3)});
  expect_agreement(model, quantized(model));
}

// A pre-activation block: the batch norm follows an add, so it becomes a depthwise convolution.
TEST(Convert, AgreesOnABatchNormThatFollowsNoLayer) {
  NetworkBuilder net;
  const ValueId x = net.input("input", {3, 8});
  const ValueId y = net.relu(net.batch_norm(net.apply(pool(), "pool", {x}), "norm"), "relu");
  const auto model = net.build({net.linear(net.apply(GlobalMean{}, "mean", {net.conv(y, "conv", 4, 3)}), "last", 3)});
  expect_agreement(model, quantized(model));
}

// While it takes statistics of the batch it has no quantizer; that is no reason to refuse the network.
TEST(Convert, TakesABatchNormThatFollowsNoLayerAndNeverFroze) {
  NetworkBuilder net;
  const ValueId x = net.input("input", {3, 8});
  const ValueId y = net.relu(net.batch_norm(net.apply(pool(), "pool", {x}), "norm"), "relu");
  const auto model = net.build({net.linear(net.apply(GlobalMean{}, "mean", {net.conv(y, "conv", 4, 3)}), "last", 3)});
  torch::optim::SGD optimizer(model->parameters(), 1e-4);
  Compressor compressor(model, {.epochs = {.quantize = 1}, .quantize = QuantizeRecipe{}});
  compressor.attach(optimizer, {.steps_per_epoch = 3});
  model->train();
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    model->forward(torch::randn({16, 3, 8})).square().mean().backward();
    optimizer.step();
    compressor.step();
  }
  EXPECT_NO_THROW((void)compressor.convert());
}

TEST(Convert, AgreesOnSeveralInputsAndOutputsOneOfThemReadOnTheWay) {
  NetworkBuilder net;
  const ValueId a = net.input("left", {2, 8});
  const ValueId b = net.input("right", {2, 8});
  const ValueId sum =
      net.apply(Add{}, "sum", {net.relu(net.conv(a, "a", 4, 3), "relu_a"), net.relu(net.conv(b, "b", 4, 3), "relu_b")});
  const ValueId last = net.conv(sum, "last", 2, 1);
  const auto model = net.build({sum, last});
  const Graph graph = expect_agreement(model, quantized(model));
  EXPECT_EQ(graph.values[graph.outputs[0]].name, "sum.out");
  EXPECT_EQ(graph.values[graph.outputs[1]].name, "last.out");
}

TEST(Convert, AgreesOnTiedWeightsReadAtTwoScales) {
  NetworkBuilder net;
  const ValueId x = net.input("input", {4, 8});
  const ValueId y = net.relu(net.conv(x, "first", 4, 3), "relu1");
  const ValueId wide = net.apply(Affine{.factor = 50.0F, .offset = 0.0F}, "wide", {y});
  const ValueId z = net.tied_conv(wide, "second", "first");
  const auto model = net.build({net.linear(net.apply(GlobalMean{}, "mean", {z}), "last", 3)});
  expect_agreement(model, quantized(model));
}

TEST(Convert, MixesFloatAndIntegerLayers) {
  for (const std::string layer : {"conv0", "conv1", "classifier"}) {
    const auto model = small_classifier();
    const Graph graph = expect_agreement(model, quantized(model, {.float_layers = {layer}}));
    for (const char* other : {"conv0", "conv1", "classifier"})
      EXPECT_EQ(holds_integer_weights(graph, other), layer != other) << other;
  }
}

TEST(Convert, AgreesOnSoftmaxBetweenCodes) {
  NetworkBuilder net;
  const ValueId x = net.input("input", {6});
  const ValueId a = net.linear(x, "a", 6);
  const ValueId gated = net.apply(Mul{}, "gated", {net.apply(Softmax{.axis = 0}, "soft", {a}), a});
  const auto model = net.build({net.linear(gated, "last", 3)});
  expect_agreement(model, quantized(model));
}

TEST(Convert, DropsDropoutWhoseScalingStaysOutOfTheRanges) {
  NetworkBuilder net;
  const ValueId x = net.input("input", {8});
  const ValueId dropped = net.apply(Dropout{.p = 0.75}, "dropout", {x});
  const auto model = net.build({net.linear(dropped, "last", 3)});
  torch::manual_seed(12);
  const Compressor compressor = quantized(model);
  const Graph graph = expect_agreement(model, compressor);
  for (const Value& value : graph.values)
    if (value.qparams) {
      EXPECT_LT(value.qparams->scale * 255, 12) << "dropout's factor of 4 widened the range";
    }
}

TEST(Convert, AgreesAtEveryWidthOfWeightsAndActivations) {
  for (const int weight_bits : {2, 3, 4, 5, 6, 7, 8}) {
    const auto model = small_classifier();
    const Graph graph = expect_agreement(model, quantized(model, {.weight_bits = weight_bits}));
    EXPECT_EQ(tensor_at(graph, "conv1.weight").bits, weight_bits);
  }
  for (const int activation_bits : {4, 6, 8}) {
    const auto model = small_classifier();
    const Compressor compressor = quantized(model, {.activation_bits = activation_bits});
    const Graph graph = compressor.convert(with_all_channels);
    const auto inputs = random_inputs(*model, 8);
    for (const Value& value : graph.values)
      if (value.qparams) {
        EXPECT_EQ(value.qparams->highest, (1 << activation_bits) - 1);
      }
    for (const test::NodeDistance& distance : test::node_distances(graph, test::record_values(*model, graph, inputs)))
      EXPECT_LE(distance.steps, distance.is_float ? 1e-5 : 1.001) << distance.node;
  }
}

// Rounding makes 0 of NaN, which must not hide in a file that training has diverged.
TEST(Convert, RefusesNumbersThatAreNotFiniteInLayersThatStayFloat) {
  const std::vector<Recipe> recipes = {
      {.epochs = {.dense = 1}},
      {.epochs = {.goldbarg = 1}, .goldbarg = GoldbargRecipe{.alpha = 0.5, .bits = 4}},
      {.epochs = {.goldbarg = 1}, .goldbarg = GoldbargRecipe{.alpha = 0.5, .bits = 16}},
      {.quantize = QuantizeRecipe{.layers = {"conv0"}}}};
  for (const float number : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    for (const Recipe& recipe : recipes) {
      const auto model = small_classifier();
      Compressor compressor(model, recipe);
      if (recipe.quantize) compressor.calibrate(std::vector<torch::Tensor>{torch::randn({8, 2, 16})});
      torch::optim::SGD optimizer(model->parameters(), 0.01);
      if (!recipe.quantize) compressor.attach(optimizer, {.steps_per_epoch = 3});
      EXPECT_EQ(test::refusal_of([&] { (void)compressor.convert(); }), "");
      {
        const torch::NoGradGuard no_grad;
        model->tensor("conv1.weight")[3][2][1] = number;
      }
      test::expect_names(test::refusal_of(ErrorCode::invalid_argument, [&] { (void)compressor.convert(); }),
                         {"convert", "conv1.weight", "NaN or infinities"});
    }
}

// pytorch PR #77434, #85744, #79862: gamma 0 gives NaN and poisons the running variance; one-sided and dead channels.
TEST(Convert, SurvivesGammaZeroTinyAndNegativeAndDeadAndOneSidedChannels) {
  const auto model = small_classifier();
  const auto make_awkward = [&] {
    const torch::NoGradGuard no_grad;
    for (const std::string block : {"0", "1"}) {
      torch::Tensor gamma = model->tensor("norm" + block + ".weight");
      gamma[0] = 0.0;
      gamma[1] = 1e-8;
      gamma[2] = -1.0;
      torch::Tensor weight = model->tensor("conv" + block + ".weight");
      weight[3].zero_();
      weight[4].abs_();
      weight[5].abs_().neg_();
    }
  };
  make_awkward();
  const Compressor compressor = quantized(model, {}, make_awkward);
  for (const auto& item : model->named_buffers()) EXPECT_FALSE(item.value().isnan().any().item<bool>()) << item.key();
  for (const auto& item : model->named_parameters())
    EXPECT_FALSE(item.value().isnan().any().item<bool>()) << item.key();
  const Graph graph = expect_agreement(model, compressor);
  const auto codes = elements<std::int8_t>(tensor_at(graph, "conv1.weight"));
  EXPECT_TRUE(std::all_of(codes.begin(), codes.begin() + 24, [](std::int8_t code) { return code == 0; })) << "gamma 0";
}

TEST(Convert, LeavesDeadChannelsOutOfTheFileBitForBit) {
  for (const bool quantizes : {false, true}) {
    torch::manual_seed(15);
    const auto model = small_classifier();
    const auto kill = [&] {
      const torch::NoGradGuard no_grad;
      for (const std::int64_t channel : {1, 3}) {
        model->tensor("norm1.weight")[channel] = 0.0;
        model->tensor("conv0.weight")[channel].zero_();
      }
    };
    kill();
    const Compressor compressor = quantizes ? quantized(model, {}, kill) : Compressor(model, {.epochs = {.dense = 1}});
    const Graph whole = compressor.convert(with_all_channels);
    const Graph smaller = compressor.convert();
    EXPECT_EQ(tensor_at(smaller, "conv1.weight").shape[0], tensor_at(whole, "conv1.weight").shape[0] - 2);
    EXPECT_LT(encode(smaller).size(), encode(whole).size());
    const std::vector<torch::Tensor> inputs = random_inputs(*model, 9);
    EXPECT_TRUE(torch::equal(test::run_graph(smaller, inputs).at(0), test::run_graph(whole, inputs).at(0)));
  }
}

TEST(Convert, NamesALayerWhoseAccumulatorCouldOverflow) {
  NetworkBuilder net;
  const ValueId x = net.input("input", {70000});
  const auto model = net.build({net.linear(x, "enormous", 1)});
  {
    const torch::NoGradGuard no_grad;
    model->tensor("enormous.weight").fill_(0.01);
  }
  torch::optim::SGD optimizer(model->parameters(), 0.0);
  Compressor compressor(model, {.epochs = {.quantize = 1}, .quantize = QuantizeRecipe{}});
  compressor.attach(optimizer, {.steps_per_epoch = 1});
  model->train();
  model->forward(torch::rand({2, 70000}));
  try {
    (void)compressor.convert();
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("enormous"), std::string::npos) << error.what();
  }
}

// Float recipes give the fused network.
TEST(Convert, GivesAFloatGraphWithoutQuantization) {
  torch::manual_seed(13);
  const auto model = small_classifier();
  torch::optim::SGD optimizer(model->parameters(), 0.05);
  Compressor compressor(model, {.epochs = {.prune = 2}, .prune = PruneRecipe{.sparsity = 0.75}});
  compressor.attach(optimizer, {.steps_per_epoch = 5});
  test::run_recipe(*model, optimizer, compressor, 5, [] { return make_batch(16, 2, 16, 4); });
  const Graph graph = compressor.convert(with_all_channels);
  model->eval();
  const torch::Tensor x = torch::randn({9, 2, 16});
  EXPECT_TRUE(torch::allclose(test::run_graph(graph, {x}).at(0), model->forward(x), 1e-4, 1e-5));
  for (const Value& value : graph.values) EXPECT_FALSE(value.qparams.has_value());
}

std::int64_t count_zero_codes(const Tensor& tensor) {
  if (tensor.dtype == DType::s8) {
    const auto codes = elements<std::int8_t>(tensor);
    return std::count(codes.begin(), codes.end(), 0);
  }
  const auto numbers = elements<std::uint32_t>(tensor);
  return std::count(numbers.begin(), numbers.end(), 0U);  // the bits of +0.0
}

// numerics.md 5.2: masked means zero after folding, conversion and in the packed file.
TEST(Convert, KeepsPrunedWeightsAtZeroThroughFoldingConversionAndFile) {
  for (const bool quantizes : {false, true}) {
    torch::manual_seed(14);
    const auto model = small_classifier();
    {
      const torch::NoGradGuard no_grad;
      model->tensor("norm1.weight").mul_(-1.0);  // folding turns +0 into -0 unless taken care of
    }
    torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.01).weight_decay(0.01));
    Recipe recipe{.epochs = {.prune = 1, .recover = 1}, .prune = PruneRecipe{.sparsity = 0.9}};
    if (quantizes) {
      recipe.epochs.quantize = 1;
      recipe.quantize = QuantizeRecipe{};
    }
    Compressor compressor(model, recipe);
    compressor.attach(optimizer, {.steps_per_epoch = 5});
    test::run_recipe(*model, optimizer, compressor, 5, [] { return make_batch(16, 2, 16, 4); });
    const Graph graph = decode(encode(compressor.convert(with_all_channels)));
    for (const std::string layer : {"conv0", "conv1", "classifier"}) {
      const torch::Tensor mask = model->tensor(layer + ".weight") == 0;
      const Tensor& stored = tensor_at(graph, layer + ".weight");
      EXPECT_GE(count_zero_codes(stored), zeros_at(0.9, mask.numel())) << layer;
      for (std::int64_t i = 0; i < mask.numel(); ++i) {
        if (!mask.contiguous().const_data_ptr<bool>()[i]) continue;
        if (stored.dtype == DType::s8) {
          EXPECT_EQ(elements<std::int8_t>(stored)[static_cast<std::size_t>(i)], 0);
        } else {
          EXPECT_EQ(elements<std::uint32_t>(stored)[static_cast<std::size_t>(i)], 0U);
        }
      }
    }
  }
}

TEST(Convert, MasksWeightsThatWereWrittenSinceTheLastStep) {
  const auto model = small_classifier();
  torch::optim::SGD optimizer(model->parameters(), 0.01);
  Compressor compressor(model, {.epochs = {.prune = 1}, .prune = PruneRecipe{.sparsity = 0.75}});
  compressor.attach(optimizer, {.steps_per_epoch = 1});
  compressor.step();
  {
    const torch::NoGradGuard no_grad;
    model->tensor("conv1.weight").fill_(1.0);
  }
  const Graph graph = compressor.convert(with_all_channels);
  EXPECT_EQ(count_zero_codes(tensor_at(graph, "conv1.weight")), 144);
}

// design.md 4: top-1 of the fake-quantized network and of the file.
TEST(ConvertedClassifier, NamesTheClassesThatTheNetworkNames) {
  torch::manual_seed(15);
  const auto model = small_classifier(2, 64, 6);
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.01));
  Compressor compressor(
      model, {.epochs = {.dense = 2, .prune = 2, .quantize = 2, .freeze_batch_norm = 1, .freeze_observers = 1},
              .prune = PruneRecipe{.sparsity = 0.6},
              .quantize = QuantizeRecipe{}});
  compressor.attach(optimizer, {.steps_per_epoch = 40});
  test::run_recipe(*model, optimizer, compressor, 40, [] { return make_batch(64, 2, 64, 6); });

  const torch::NoGradGuard no_grad;
  model->eval();
  const test::Batch data = make_batch(4000, 2, 64, 6);
  const torch::Tensor expected = model->forward(data.samples).argmax(1);
  const torch::Tensor got = test::run_graph(decode(encode(compressor.convert())), {data.samples}).at(0).argmax(1);
  EXPECT_GT(expected.eq(data.labels).to(torch::kDouble).mean().item<double>(), 0.8) << "the network learned too little";
  EXPECT_GE(got.eq(expected).to(torch::kDouble).mean().item<double>(), 0.998);
}

}  // namespace
}  // namespace podaq
