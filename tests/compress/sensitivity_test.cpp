#include "podaq/compress/sensitivity.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <stdexcept>

#include "compress/auto_support.h"
#include "podaq/core/cancellation.h"
#include "podaq/prune/rewinding.h"
#include "support/temporary_folder.h"

namespace podaq::test {
namespace {

Recipe auto_recipe(std::vector<double> sparsities = {0, 0.5, 0.9}, std::vector<int> bits = {8, 3}) {
  return {.epochs = {.prune = 1, .quantize = 1},
          .prune = PruneRecipe{},
          .quantize = QuantizeRecipe{},
          .automatic =
              AutoRecipe{.budget_bytes = 2000, .sparsities = std::move(sparsities), .weight_bits = std::move(bits)}};
}

Recipe prune_only() {
  Recipe recipe = auto_recipe();
  recipe.quantize.reset();
  recipe.epochs.quantize = 0;
  recipe.automatic->weight_bits.clear();
  return recipe;
}

const CandidateEffect& effect_of(const SensitivityReport& report, const std::string& layer,
                                 const LayerCandidate& candidate) {
  for (const LayerSensitivity& each : report.layers)
    for (const CandidateEffect& effect : each.candidates)
      if (each.layer == layer && effect.candidate == candidate) return effect;
  throw std::out_of_range(layer);
}

void expect_same(const SensitivityReport& a, const SensitivityReport& b) {
  EXPECT_EQ(to_text(a), to_text(b));
  ASSERT_EQ(a.layers.size(), b.layers.size());
  for (std::size_t i = 0; i < a.layers.size(); ++i)
    for (std::size_t c = 0; c < a.layers[i].candidates.size(); ++c)
      EXPECT_EQ(a.layers[i].candidates[c].loss_rise, b.layers[i].candidates.at(c).loss_rise);
}

// The weight with as many of the smallest magnitudes at zero as the sparsity asks.
torch::Tensor pruned(const torch::Tensor& weight, double sparsity) {
  const torch::Tensor order = weight.detach().abs().reshape({-1}).argsort(/*stable=*/true, 0, false);
  const auto zeros = static_cast<std::int64_t>(std::floor(static_cast<double>(weight.numel()) * sparsity + 0.5));
  torch::Tensor flat = weight.detach().clone().reshape({-1});
  flat.index_fill_(0, order.narrow(0, 0, zeros), 0.0);
  return flat.reshape(weight.sizes());
}

double loss_with_weight(const GraphModule& model, const std::string& name, const torch::Tensor& weight,
                        const ValidationFunction& validation) {
  const auto copy = std::dynamic_pointer_cast<GraphModule>(model.clone());
  copy->eval();
  const torch::NoGradGuard no_grad;
  copy->tensor(name).copy_(weight);
  return validation(*copy);
}

TEST(Sensitivity, ListsEveryCandidateOfEverySearchedLayer) {
  const SensitivityReport report =
      measure_sensitivity(*trained_classifier(), auto_recipe(), cross_entropy_on(validation_batch()), quiet());
  ASSERT_EQ(report.layers.size(), 3U);
  EXPECT_EQ(report.layers[0].layer, "conv0");
  EXPECT_EQ(report.layers[2].layer, "classifier");
  EXPECT_EQ(report.layers[1].weights, 8 * 8 * 3);
  const std::vector<LayerCandidate> expected = {{0, 8}, {0, 3}, {0.5, 8}, {0.5, 3}, {0.9, 8}, {0.9, 3}};
  for (const LayerSensitivity& layer : report.layers) {
    ASSERT_EQ(layer.candidates.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(layer.candidates[i].candidate, expected[i]);
      EXPECT_GT(layer.candidates[i].bytes, 0.0);
      EXPECT_FALSE(layer.candidates[i].us.has_value());
    }
  }
}

TEST(Sensitivity, IsTheLossOfTheNetworkWithThatLayerAlonePruned) {
  const auto model = trained_classifier();
  const ValidationFunction validation = cross_entropy_on(validation_batch());
  const SensitivityReport report = measure_sensitivity(*model, prune_only(), validation, quiet());
  EXPECT_EQ(report.baseline, loss_with_weight(*model, "conv0.weight", model->tensor("conv0.weight"), validation));
  for (const std::string layer : {"conv0", "conv1", "classifier"})
    for (const double sparsity : {0.0, 0.5, 0.9}) {
      const torch::Tensor weight = pruned(model->tensor(layer + ".weight"), sparsity);
      EXPECT_EQ(effect_of(report, layer, {.sparsity = sparsity}).loss_rise,
                loss_with_weight(*model, layer + ".weight", weight, validation) - report.baseline)
          << layer << " at " << sparsity;
    }
}

TEST(Sensitivity, RoundsTheLayersWeightsPerChannelAndNothingElse) {
  const auto model = trained_classifier();
  const ValidationFunction validation = cross_entropy_on(validation_batch());
  const SensitivityReport report = measure_sensitivity(*model, auto_recipe(), validation, quiet());
  for (const auto& [bits, limit] : {std::pair(8, 127.0), std::pair(3, 3.0)}) {
    const torch::Tensor weight = pruned(model->tensor("classifier.weight"), 0.5);
    const torch::Tensor scale = weight.abs().amax(1, true) / limit;
    const double expected =
        loss_with_weight(*model, "classifier.weight", (weight / scale).round() * scale, validation) - report.baseline;
    EXPECT_NEAR(effect_of(report, "classifier", {.sparsity = 0.5, .weight_bits = bits}).loss_rise, expected, 1e-3)
        << "but for its bias, which is rounded too";
  }
  EXPECT_NEAR(effect_of(report, "conv1", {.sparsity = 0, .weight_bits = 8}).loss_rise, 0.0, 0.02);
}

TEST(Sensitivity, PrunesInTheRecipesPattern) {
  Recipe recipe = prune_only();
  recipe.prune->pattern = BlockPattern{.rows = 4, .columns = 1};
  recipe.automatic->sparsities = {0.5};
  const auto model = trained_classifier();
  std::int64_t broken_blocks = 0;
  std::int64_t calls = 0;
  (void)measure_sensitivity(
      *model, recipe,
      [&](GraphModule& network) {
        const torch::Tensor zeros = (network.tensor("conv1.weight") == 0).reshape({2, 4, -1}).sum(1);
        broken_blocks += (zeros.ne(0).logical_and(zeros.ne(4))).sum().item<std::int64_t>();
        calls += zeros.sum().item<std::int64_t>() > 0 ? 1 : 0;
        return 1.0;
      },
      quiet());
  EXPECT_EQ(broken_blocks, 0);
  EXPECT_EQ(calls, 1);
}

TEST(Sensitivity, NOfMHasTwoCandidatesALayer) {
  Recipe recipe = prune_only();
  recipe.prune->pattern = NOfMPattern{.n = 2, .m = 4};
  recipe.automatic->sparsities.clear();
  const SensitivityReport report =
      measure_sensitivity(*trained_classifier(), recipe, cross_entropy_on(validation_batch()), quiet());
  // conv0 has two input channels, of which 2:4 leaves both.
  ASSERT_EQ(report.layers.size(), 2U);
  EXPECT_EQ(report.layers[0].layer, "conv1");
  ASSERT_EQ(report.layers[0].candidates.size(), 2U);
  EXPECT_EQ(report.layers[0].candidates[0].candidate.sparsity, 0.0);
  EXPECT_EQ(report.layers[0].candidates[1].candidate.sparsity, 0.5);
}

TEST(Sensitivity, LeavesTheNetworkAsItIs) {
  const auto model = trained_classifier();
  model->train();
  int calls_of_hook = 0;
  model->set_value_hook(model->graph().inputs[0], [&](const torch::Tensor& value, bool) {
    ++calls_of_hook;
    return value;
  });
  const auto before = take_snapshot(*model);
  (void)measure_sensitivity(*model, auto_recipe(), cross_entropy_on(validation_batch()), quiet());
  EXPECT_TRUE(model->is_training());
  for (const auto& [name, tensor] : take_snapshot(*model)) EXPECT_TRUE(same_bits(tensor, before.at(name))) << name;
  EXPECT_EQ(calls_of_hook, 0);
  (void)model->forward(validation_batch(2).samples);
  EXPECT_EQ(calls_of_hook, 1);
}

// A function that trains by mistake must not spoil what is measured after it.
TEST(Sensitivity, AValidationFunctionThatChangesItsNetworkChangesNothing) {
  const auto model = trained_classifier();
  const ValidationFunction validation = cross_entropy_on(validation_batch());
  const SensitivityReport clean = measure_sensitivity(*model, prune_only(), validation, quiet());
  const SensitivityReport spoilt = measure_sensitivity(
      *model, prune_only(),
      [&](GraphModule& network) {
        const double loss = validation(network);
        network.train();
        (void)network.forward(torch::randn({8, 2, 16}));
        for (torch::Tensor& parameter : network.parameters()) parameter.mul_(2);
        return loss;
      },
      quiet());
  expect_same(spoilt, clean);
}

TEST(Sensitivity, ExceptionsAndFloatLayersAreNotSearched) {
  Recipe recipe = auto_recipe();
  recipe.prune->by_layer = {{.layers = "conv0", .sparsity = 0.25}};
  recipe.quantize->weight_bits_by_layer = {{.names = "conv1", .bits = 5}};
  recipe.quantize->float_layers = {"classifier"};
  const SensitivityReport report =
      measure_sensitivity(*trained_classifier(), recipe, cross_entropy_on(validation_batch()), quiet());
  ASSERT_EQ(report.layers.size(), 3U);
  for (const CandidateEffect& effect : report.layers[0].candidates) EXPECT_EQ(effect.candidate.sparsity, 0.25);
  for (const CandidateEffect& effect : report.layers[1].candidates) EXPECT_EQ(effect.candidate.weight_bits, 5);
  for (const CandidateEffect& effect : report.layers[2].candidates) EXPECT_EQ(effect.candidate.weight_bits, 32);
  EXPECT_EQ(report.layers[0].candidates.size(), 2U);
  EXPECT_EQ(report.layers[1].candidates.size(), 3U);
}

TEST(Sensitivity, FrozenLayersAreNotPruned) {
  const auto model = trained_classifier();
  model->tensor("conv1.weight").set_requires_grad(false);
  const SensitivityReport report =
      measure_sensitivity(*model, prune_only(), cross_entropy_on(validation_batch()), quiet());
  for (const LayerSensitivity& layer : report.layers) EXPECT_NE(layer.layer, "conv1");
  EXPECT_EQ(report.layers.size(), 2U);
}

TEST(Sensitivity, ATiedWeightIsOneLayerRoundedInBothPlaces) {
  NetworkBuilder net;
  ValueId x = net.conv(net.input("input", {4, 16}), "first", 4, 3);
  x = net.tied_conv(net.relu(x, "relu"), "second", "first");
  const auto model = net.build({net.linear(net.apply(GlobalMean{}, "mean", {x}), "classifier", 3)});
  const SensitivityReport report = measure_sensitivity(
      *model, auto_recipe(), cross_entropy_on({torch::randn({16, 4, 16}), torch::randint(3, {16}, torch::kLong)}),
      quiet());
  ASSERT_EQ(report.layers.size(), 2U);
  EXPECT_EQ(report.layers[0].layer, "first");
  // Each of the two stores codes of its own.
  EXPECT_GT(effect_of(report, "first", {.sparsity = 0, .weight_bits = 8}).bytes, 1.5 * 4 * 4 * 3);
}

TEST(Sensitivity, ABrokenCandidateIsNotANumberButTheOthersAre) {
  const ValidationFunction validation = cross_entropy_on(validation_batch());
  const SensitivityReport report = measure_sensitivity(
      *trained_classifier(), prune_only(),
      [&](GraphModule& network) {
        const double zeros = (network.tensor("conv1.weight") == 0).sum().item<double>();
        return zeros > 150 ? std::numeric_limits<double>::infinity() : validation(network);
      },
      quiet());
  EXPECT_FALSE(std::isfinite(effect_of(report, "conv1", {.sparsity = 0.9}).loss_rise));
  EXPECT_TRUE(std::isfinite(effect_of(report, "conv1", {.sparsity = 0.5}).loss_rise));
  EXPECT_TRUE(std::isfinite(effect_of(report, "classifier", {.sparsity = 0.9}).loss_rise));
}

TEST(Sensitivity, RefusesAValidationFunctionWithoutANumber) {
  const auto model = trained_classifier();
  const auto refusal = [&](const ValidationFunction& validation) {
    return refusal_of(ErrorCode::invalid_argument,
                      [&] { (void)measure_sensitivity(*model, auto_recipe(), validation, quiet()); });
  };
  EXPECT_NE(refusal({}).find("empty"), std::string::npos);
  EXPECT_NE(refusal([](GraphModule&) { return 1.0; }).find("must run that network"), std::string::npos);
  const ValidationFunction good = cross_entropy_on(validation_batch());
  EXPECT_NE(refusal([&](GraphModule& network) { return std::nan("") * good(network); }).find("gives nan"),
            std::string::npos);
}

TEST(Sensitivity, ShowsProgressWithTheTimeLeft) {
  std::string shown;
  auto time = std::chrono::steady_clock::time_point();
  const SensitivityOptions options{.progress = {.write = [&](std::string_view text) { shown += text; },
                                                .now = [&] { return time += std::chrono::seconds(2); }}};
  (void)measure_sensitivity(*trained_classifier(), auto_recipe(), cross_entropy_on(validation_batch()), options);
  EXPECT_NE(shown.find("sensitivity"), std::string::npos) << shown;
  EXPECT_NE(shown.find("left"), std::string::npos) << shown;
  EXPECT_NE(shown.find("18/18"), std::string::npos) << shown;
}

class SensitivityFile : public testing::Test {
 protected:
  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_.path() / "sensitivity.json";
  std::shared_ptr<GraphModule> model_ = trained_classifier();
  ValidationFunction validation_ = cross_entropy_on(validation_batch());
  int calls_ = 0;

  SensitivityReport measure(const Recipe& recipe = auto_recipe()) {
    return measure_sensitivity(
        *model_, recipe,
        [&](GraphModule& network) {
          ++calls_;
          return validation_(network);
        },
        quiet(file_));
  }

  [[nodiscard]] std::string content() const {
    std::ostringstream text;
    text << std::ifstream(file_).rdbuf();
    return text.str();
  }

  std::string refusal(ErrorCode code, const Recipe& recipe = auto_recipe()) {
    return refusal_of(code, [&] { (void)measure(recipe); });
  }
};

TEST_F(SensitivityFile, AStoppedRunGoesOnWhereItStopped) {
  const SensitivityReport whole = measure_sensitivity(*model_, auto_recipe(), validation_, quiet());
  const int stop_after = 8;
  EXPECT_THROW((void)measure_sensitivity(
                   *model_, auto_recipe(),
                   [&](GraphModule& network) {
                     if (++calls_ > stop_after) throw std::runtime_error("stopped");
                     return validation_(network);
                   },
                   quiet(file_)),
               std::runtime_error);
  calls_ = 0;
  expect_same(measure(), whole);
  EXPECT_EQ(calls_, 1 + 18 - (stop_after - 1)) << "the network as it is, and what was missing";
  calls_ = 0;
  expect_same(measure(), whole);
  EXPECT_EQ(calls_, 1);
}

TEST_F(SensitivityFile, ACancelledRunGoesOnToo) {
  const SensitivityReport whole = measure_sensitivity(*model_, auto_recipe(), validation_, quiet());
  const ValidationFunction plain = validation_;
  {
    const CancellationScope scope;
    validation_ = [&](GraphModule& network) {
      EXPECT_TRUE(calls_ != 5 || ::raise(SIGINT) == 0);
      return plain(network);
    };
    EXPECT_NE(refusal(ErrorCode::cancelled), "");
    EXPECT_EQ(calls_, 5);
  }
  calls_ = 0;
  validation_ = plain;
  expect_same(measure(), whole);
  EXPECT_EQ(calls_, 1 + 18 - 4);
}

TEST_F(SensitivityFile, ServesOtherCandidatesAndBudgetsToo) {
  (void)measure();
  calls_ = 0;
  Recipe recipe = auto_recipe({0.5, 0.7}, {3});
  recipe.automatic->budget_bytes = 1234;
  (void)measure(recipe);
  EXPECT_EQ(calls_, 1 + 3) << "0.7 of each layer";
}

TEST_F(SensitivityFile, BrokenCandidatesStayBroken) {
  const ValidationFunction plain = validation_;
  validation_ = [&](GraphModule& network) {
    const double zeros = (network.tensor("conv1.weight") == 0).sum().item<double>();
    return zeros > 150 ? std::nan("") : plain(network);
  };
  (void)measure();
  calls_ = 0;
  EXPECT_TRUE(std::isnan(effect_of(measure(), "conv1", {.sparsity = 0.9, .weight_bits = 8}).loss_rise));
  EXPECT_EQ(calls_, 1);
}

TEST_F(SensitivityFile, OfAnotherNetworkRecipeOrFunctionIsRefusedAndKept) {
  (void)measure();
  const std::string before = content();
  Recipe other = auto_recipe();
  other.prune->pattern = BlockPattern{};
  EXPECT_NE(refusal(ErrorCode::invalid_argument, other).find(file_.string()), std::string::npos);
  const ValidationFunction plain = validation_;
  validation_ = [&](GraphModule& network) { return plain(network) + 0.01; };
  EXPECT_NE(refusal(ErrorCode::invalid_argument).find("validation function"), std::string::npos);
  validation_ = plain;
  torch::NoGradGuard no_grad;
  model_->tensor("norm0.running_mean").add_(1e-3);
  EXPECT_NE(refusal(ErrorCode::invalid_argument).find("another network"), std::string::npos);
  EXPECT_EQ(content(), before);
}

TEST_F(SensitivityFile, DamagedOnesAreRefusedByName) {
  (void)measure();
  const std::string good = content();
  for (std::string damaged :
       {good.substr(0, good.size() / 2), std::string("[]"), std::string("{}"), std::string(),
        std::string(R"({"format": "podaq sensitivity 1", "subject": 3})"),
        std::string(R"({"format": "other", "subject": "", "baseline": 1, "losses": {}})"),
        std::string(R"({"format": "podaq sensitivity 1", "subject": "", "baseline": 1, "losses": 3})")}) {
    std::ofstream(file_, std::ios::trunc) << damaged;
    EXPECT_NE(refusal(ErrorCode::format).find(file_.string()), std::string::npos) << damaged;
    EXPECT_EQ(content(), damaged);
  }
}

TEST_F(SensitivityFile, IsRefusedBeforeAnythingIsMeasuredWhereItCannotBeWritten) {
  file_ = folder_.path() / "missing" / "sensitivity.json";
  EXPECT_NE(refusal(ErrorCode::io), "");
  EXPECT_EQ(calls_, 0);
}

}  // namespace
}  // namespace podaq::test
