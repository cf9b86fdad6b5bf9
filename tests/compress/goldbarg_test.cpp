// The recipe's [goldbarg]: the strategy of the thesis as its code computes it (reference/amc.md 1.2), and what becomes
// of it in the file.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "compress/agreement.h"
#include "compress/refusals.h"
#include "compress/training_run.h"
#include "podaq/format/file.h"
#include "support/temporary_folder.h"

namespace podaq {
namespace {

using test::TrainingRun;

Recipe goldbarg_recipe(const GoldbargRecipe& goldbarg, double dense = 0, double epochs = 2) {
  return {.epochs = {.dense = dense, .goldbarg = epochs}, .goldbarg = goldbarg};
}

double zero_share(const torch::Tensor& tensor) {
  return tensor.eq(0).to(torch::kDouble).mean().item<double>();
}

TEST(Goldbarg, PrunesTheShareThatTheInitialDistributionSays) {
  for (const bool is_uniform : {false, true})
    for (const double alpha : {0.25, 0.5, 0.75, 1.0, 1.25}) {
      test::NetworkBuilder net;
      const auto model = net.build({net.linear(net.input("input", {300}), "layer", 400)});
      torch::manual_seed(17);
      {
        const torch::NoGradGuard no_grad;
        for (const torch::Tensor& tensor : model->parameters())
          is_uniform ? torch::Tensor(tensor).uniform_(-0.3, 0.3) : torch::Tensor(tensor).normal_(0, 0.05);
      }
      torch::optim::SGD optimizer(model->parameters(), 0.01);
      Compressor compressor(model, goldbarg_recipe({.alpha = alpha}));
      compressor.attach(optimizer, {.steps_per_epoch = 3});
      const double expected = is_uniform ? alpha / std::sqrt(3.0) : std::erf(alpha / std::sqrt(2.0));
      EXPECT_NEAR(zero_share(model->tensor("layer.weight")), expected, 0.005) << alpha;
      EXPECT_NEAR(zero_share(model->tensor("layer.bias")), expected, 0.1) << alpha;
      const LayerReport report = compressor.report().layers.at(0);
      EXPECT_EQ(static_cast<double>(report.zeros) / 120000, zero_share(model->tensor("layer.weight")));
    }
}

// The strategy written down once more, step by step as in reference/amc.md 1.2, on tensors of its own.
class NaiveGoldbarg {
 public:
  NaiveGoldbarg(std::shared_ptr<GraphModule> model, const GoldbargRecipe& recipe, double rate)
      : model_(std::move(model)), recipe_(recipe), rate_(rate) {
    for (const auto& item : model_->named_parameters()) {
      masters_[item.key()] = item.value().detach().clone();
      momentum_[item.key()] = torch::zeros_like(masters_[item.key()]);
    }
  }

  void batch(const test::Batch& batch, bool is_first_of_later_epoch) {
    for (auto& [name, master] : masters_) {
      torch::Tensor rounded = master;
      if (is_quantized(name)) {
        if (!is_first_of_later_epoch) prune(name);  // the epoch's end did
        rounded = quantized(name);
      }
      const torch::NoGradGuard no_grad;
      model_->tensor(name).copy_(rounded);
    }
    model_->zero_grad();
    torch::nn::functional::cross_entropy(model_->forward(batch.samples), batch.labels).backward();
    for (auto& [name, master] : masters_) {
      const torch::NoGradGuard no_grad;
      momentum_[name] = 0.9 * momentum_[name] - rate_ * model_->tensor(name).grad();
      master = master + momentum_[name];
    }
  }

  void end_epoch() {
    for (auto& [name, master] : masters_) {
      if (!is_quantized(name)) continue;
      prune(name);
      if (recipe_.restart_from_quantized) master = quantized(name);
    }
  }

  [[nodiscard]] const std::map<std::string, torch::Tensor>& masters() const { return masters_; }

 private:
  bool is_quantized(const std::string& name) const {
    return name.starts_with("conv") || name == "classifier.weight" || (recipe_.biases && name == "classifier.bias");
  }

  void prune(const std::string& name) {
    torch::Tensor& master = masters_[name];
    const double mean = master.mean().item<double>();
    const double b = recipe_.alpha * std::sqrt((master - mean).square().mean().item<double>());
    master = torch::where(master.abs() > b, master, torch::zeros_like(master));
    if (!recipe_.bits) return;
    const double limit = std::pow(2, *recipe_.bits - 1) - 1;
    steps_[name] = (master.abs().max().item<double>() - b) / limit;
  }

  torch::Tensor quantized(const std::string& name) const {
    if (!recipe_.bits) return masters_.at(name);
    const double limit = std::pow(2, *recipe_.bits - 1) - 1;
    torch::Tensor codes = (masters_.at(name) / steps_.at(name)).round();
    if (recipe_.codes == ThresholdCodes::clamped) codes = codes.clamp(-limit, limit);
    return codes * steps_.at(name);
  }

  std::shared_ptr<GraphModule> model_;
  GoldbargRecipe recipe_;
  double rate_;
  std::map<std::string, torch::Tensor> masters_, momentum_;
  std::map<std::string, double> steps_;
};

class GoldbargToTheLetter : public testing::TestWithParam<GoldbargRecipe> {};

TEST_P(GoldbargToTheLetter, MovesTheWeightsAsItsDescriptionDoes) {
  constexpr std::int64_t steps = 6;
  constexpr double rate = 0.05;
  const auto model = test::small_classifier(2, 16, 4, 9);
  NaiveGoldbarg reference(test::small_classifier(2, 16, 4, 9), GetParam(), rate);
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(rate).momentum(0.9));
  Compressor compressor(model, goldbarg_recipe(GetParam(), 0, 3));
  compressor.attach(optimizer, {.steps_per_epoch = steps});
  torch::manual_seed(4);
  for (; compressor.epoch() < compressor.epochs(); compressor.end_epoch(), reference.end_epoch())
    for (std::int64_t step = 0; step < steps; ++step) {
      const test::Batch batch = test::make_batch(16, 2, 16, 4);
      test::train_step(*model, optimizer, batch);
      compressor.step();
      reference.batch(batch, step == 0 && compressor.epoch() > 0);
    }
  for (const auto& [name, master] : reference.masters())
    EXPECT_TRUE(model->tensor(name).detach().allclose(master, 1e-3, 1e-5))
        << name << ": " << (model->tensor(name).detach() - master).abs().max().item<double>();
}

INSTANTIATE_TEST_SUITE_P(Strategies, GoldbargToTheLetter,
                         testing::Values(GoldbargRecipe{.alpha = 0.5}, GoldbargRecipe{.bits = 8},
                                         GoldbargRecipe{.bits = 3}, GoldbargRecipe{.alpha = 0.5, .bits = 8},
                                         GoldbargRecipe{.alpha = 0.75, .bits = 4},
                                         GoldbargRecipe{.alpha = 0.5, .bits = 4, .codes = ThresholdCodes::clamped},
                                         GoldbargRecipe{.alpha = 0.5, .bits = 4, .biases = false},
                                         GoldbargRecipe{.alpha = 0.5, .bits = 8, .restart_from_quantized = false}));

TEST(Goldbarg, RestartsEpochsFromRoundedNumbersIfAskedTo) {
  for (const bool restarts : {true, false}) {
    TrainingRun run(7, "SGD", 0.05, 0, goldbarg_recipe({.alpha = 0.3, .bits = 4, .restart_from_quantized = restarts}));
    run.train(TrainingRun::steps_per_epoch);
    const torch::Tensor weight = run.model->tensor("conv1.weight").detach();
    const double largest = weight.abs().max().item<double>();
    std::set<float> levels;
    for (std::int64_t i = 0; i < weight.numel(); ++i) levels.insert(weight.abs().flatten()[i].item<float>());
    EXPECT_EQ(levels.size() <= 12, restarts) << levels.size() << " levels up to " << largest;
  }
}

struct GoldbargForm {
  GoldbargRecipe recipe;
  bool has_codes = true;  // whether the large layer's weights fit 8 bits
};

class GoldbargFile : public testing::TestWithParam<GoldbargForm> {};

TEST_P(GoldbargFile, ComputesWhatTheNetworkComputes) {
  TrainingRun run(7, "SGD", 0.05, 0, goldbarg_recipe(GetParam().recipe));
  {
    const torch::NoGradGuard no_grad;  // signs turn, and one channel of a batch norm is silent
    run.model->tensor("norm0.weight")[2] = -0.7;
    run.model->tensor("norm1.weight")[3] = 0;
  }
  run.train(2 * TrainingRun::steps_per_epoch);
  run.model->eval();
  const torch::NoGradGuard no_grad;
  const torch::Tensor samples = torch::randn({64, 2, 16});
  const torch::Tensor expected = run.model->forward(samples);
  const Graph graph = run.compressor->convert();
  const torch::Tensor got = test::run_graph(graph, {samples}).at(0);
  EXPECT_LT((got - expected).abs().max().item<double>(), 1e-5 * expected.abs().max().item<double>());

  const test::TemporaryFolder folder;
  save(graph, folder.path() / "net.podaq");
  const Graph loaded = load(folder.path() / "net.podaq");
  EXPECT_TRUE(test::run_graph(loaded, {samples}).at(0).equal(got));

  const Tensor& weight = loaded.tensors.at("conv1.weight");
  EXPECT_EQ(weight.dtype == DType::s8, GetParam().has_codes);
  if (GetParam().has_codes) {
    EXPECT_GE(weight.bits, std::min(*GetParam().recipe.bits, 8) - 1);
    EXPECT_TRUE(weight.bits <= *GetParam().recipe.bits || GetParam().recipe.codes == ThresholdCodes::verbatim);
  }
  const Graph whole = run.compressor->convert({.remove_dead_channels = false});
  const std::vector<float> numbers = numbers_of(whole.tensors.at("conv1.weight"));
  const torch::Tensor master = run.model->tensor("conv1.weight").detach().flatten();
  const std::int64_t silent = master.numel() / 8;
  for (std::int64_t i = 0; i < master.numel(); ++i)
    if (i / silent != 3 && master[i].item<float>() == 0) {
      EXPECT_EQ(numbers[static_cast<std::size_t>(i)], 0.0F);
    }
}

INSTANTIATE_TEST_SUITE_P(Forms, GoldbargFile,
                         testing::Values(GoldbargForm{{.alpha = 0.5}, false}, GoldbargForm{{.bits = 8}},
                                         GoldbargForm{{.bits = 4}}, GoldbargForm{{.bits = 3}},
                                         GoldbargForm{{.alpha = 0.5, .bits = 4}},
                                         GoldbargForm{{.alpha = 0.75, .bits = 3}},
                                         GoldbargForm{{.alpha = 1, .bits = 8, .codes = ThresholdCodes::clamped}},
                                         GoldbargForm{{.alpha = 1, .bits = 8}, false},
                                         GoldbargForm{{.bits = 12}, false}, GoldbargForm{{.bits = 16}, false},
                                         GoldbargForm{{.alpha = 0.5, .bits = 4, .biases = false}}));

TEST(Goldbarg, ReportCountsWhatIsPrunedAndWhatRoundsToZero) {
  TrainingRun run(7, "SGD", 0.05, 0, goldbarg_recipe({.alpha = 0.2, .bits = 2, .restart_from_quantized = false}));
  run.train(7);
  const CompressionReport report = run.compressor->report();
  const Graph graph = run.compressor->convert({.remove_dead_channels = false});
  for (const LayerReport& layer : report.layers) {
    const std::vector<float> numbers = numbers_of(graph.tensors.at(layer.layer + ".weight"));
    EXPECT_EQ(layer.weight_bits, 2);
    EXPECT_GT(layer.rounded_to_zero, 0);
    EXPECT_EQ(layer.zeros + layer.rounded_to_zero, std::count(numbers.begin(), numbers.end(), 0.0F)) << layer.layer;
  }
}

TEST(Goldbarg, TakesTheChosenLayersAlone) {
  TrainingRun run(7, "SGD", 0.05, 0, goldbarg_recipe({.alpha = 0.5, .bits = 4, .layers = {"conv*"}}));
  run.train(3);
  EXPECT_GT(zero_share(run.model->tensor("conv0.weight")), 0.1);
  EXPECT_EQ(zero_share(run.model->tensor("classifier.weight")), 0);
  const Graph graph = run.compressor->convert();
  EXPECT_EQ(graph.tensors.at("conv0.weight").dtype, DType::s8);
  EXPECT_EQ(graph.tensors.at("classifier.weight").dtype, DType::f32);
}

TEST(Goldbarg, BeginsAfterTheDenseStage) {
  TrainingRun dense(7, "SGD", 0.05, 0, {.epochs = {.dense = 2}});
  dense.train(4);
  TrainingRun run(7, "SGD", 0.05, 0, goldbarg_recipe({.alpha = 0.5, .bits = 4}, 1, 1));
  run.train(4);
  EXPECT_NE(test::refusal_of([&] { (void)run.compressor->convert(); }), "");
  EXPECT_TRUE(run.model->tensor("conv1.weight").equal(dense.model->tensor("conv1.weight")));
  EXPECT_EQ(run.compressor->stage(), Stage::dense);
  run.train(1);
  EXPECT_EQ(run.compressor->stage(), Stage::goldbarg);
  EXPECT_GT(zero_share(run.model->tensor("conv1.weight")), 0.2);
  EXPECT_FALSE(run.compressor->settled());
  run.train(5);
  EXPECT_TRUE(run.compressor->settled());
}

class GoldbargResume : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(GoldbargResume, GivesTheFileOfTheUnbrokenRun) {
  const auto& [optimizer, stop] = GetParam();
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "checkpoint";
  const Recipe recipe = goldbarg_recipe({.alpha = 0.5, .bits = 4}, 1, 2);
  TrainingRun whole(31, optimizer, 0.02, 1e-2, recipe);
  whole.train(stop);
  whole.compressor->save_checkpoint(path);
  whole.train(15 - stop);
  TrainingRun resumed(99, optimizer, 0.7, 0.5, recipe);
  resumed.resume(path, stop);
  resumed.train(15 - stop);
  EXPECT_EQ(encode(resumed.compressor->convert()), encode(whole.compressor->convert()));

  // The same process goes back: what the later stage left on the network must not stay.
  resumed.resume(path, stop);
  resumed.train(15 - stop);
  EXPECT_EQ(encode(resumed.compressor->convert()), encode(whole.compressor->convert()));
}

INSTANTIATE_TEST_SUITE_P(All, GoldbargResume,
                         testing::Combine(testing::Values("SGD", "AdamW"), testing::Values(2, 5, 8, 10)));

TEST(Goldbarg, TensorsWithoutAStepStayAsTheyAre) {
  test::NetworkBuilder net;
  const auto model = net.build({net.linear(net.linear(net.input("input", {4}), "one", 4), "two", 3)});
  {
    const torch::NoGradGuard no_grad;
    model->tensor("one.weight").zero_();
    model->tensor("one.bias").fill_(0.1);  // no deviation: nothing is pruned
    model->tensor("two.bias").zero_();
    model->tensor("two.weight").fill_(-0.5);
    model->tensor("two.weight")[0][0] = 3;
  }
  torch::optim::SGD optimizer(model->parameters(), 0.01);
  Compressor compressor(model, goldbarg_recipe({.alpha = 3, .bits = 8}));
  compressor.attach(optimizer, {.steps_per_epoch = 3});
  model->eval();
  const torch::Tensor samples = torch::randn({8, 4});
  const torch::Tensor expected = model->forward(samples).detach();
  EXPECT_FALSE(expected.isnan().any().item<bool>());
  EXPECT_TRUE(model->tensor("one.bias").equal(torch::full({4}, 0.1)));
  EXPECT_EQ(model->tensor("two.weight").count_nonzero().item<int>(), 1) << "the largest weight always stays";
  const torch::Tensor got = test::run_graph(compressor.convert({.remove_dead_channels = false}), {samples}).at(0);
  EXPECT_TRUE(got.allclose(expected, 1e-5, 1e-6));
  EXPECT_TRUE(test::run_graph(compressor.convert(), {samples}).at(0).equal(got));
}

TEST(Goldbarg, LeavesFrozenBiasesAloneUnlessTheirFrozenLayerIsNamed) {
  const auto has_changed = [](bool is_layer_frozen, const std::string& glob) {
    const auto model = test::small_classifier();
    model->tensor("classifier.bias").set_requires_grad(false);
    model->tensor("classifier.weight").set_requires_grad(!is_layer_frozen);
    const torch::Tensor before = model->tensor("classifier.bias").clone();
    torch::optim::SGD optimizer(model->parameters(), 0.01);
    Compressor compressor(model, goldbarg_recipe({.alpha = 1, .layers = {glob}}));
    compressor.attach(optimizer, {.steps_per_epoch = 3});
    return !model->tensor("classifier.bias").equal(before);
  };
  EXPECT_FALSE(has_changed(false, "*"));
  EXPECT_FALSE(has_changed(false, "classifier"));
  EXPECT_FALSE(has_changed(true, "*"));
  EXPECT_TRUE(has_changed(true, "classifier"));
}

TEST(Goldbarg, TakesWeightsOfAnyMemoryFormatAndPrecision) {
  const auto file_of = [](const std::function<void(GraphModule&)>& change) {
    test::NetworkBuilder net(3);
    const ValueId x = net.relu(net.conv(net.input("input", {4, 6, 6}), "conv", 8, 3), "relu");
    const auto model = net.build({net.linear(net.apply(GlobalMean{}, "mean", {x}), "head", 3)});
    change(*model);
    torch::optim::SGD optimizer(model->parameters(), 0.01);
    Compressor compressor(model, goldbarg_recipe({.alpha = 0.5, .bits = 12}));
    compressor.attach(optimizer, {.steps_per_epoch = 3});
    return encode(compressor.convert());
  };
  const std::vector<std::byte> plain = file_of([](GraphModule&) {});
  EXPECT_EQ(file_of([](GraphModule& model) {
              torch::Tensor weight = model.tensor("conv.weight");
              weight.set_data(weight.contiguous(torch::MemoryFormat::ChannelsLast));
            }),
            plain);
  EXPECT_FALSE(file_of([](GraphModule& model) { model.to(torch::kDouble); }).empty());
}

TEST(Goldbarg, RecipeTextReadsBack) {
  const Recipe recipe = Recipe::parse(
      "[epochs]\ndense = 0.5\ngoldbarg = 3\n[goldbarg]\nalpha = 0.75\nbits = 8\ncodes = \"clamped\"\nbiases = false\n"
      "restart_from_quantized = false\nlayers = [\"conv*\"]\n");
  EXPECT_EQ(recipe.epochs.goldbarg, 3);
  EXPECT_EQ(recipe.goldbarg->alpha, 0.75);
  EXPECT_EQ(recipe.goldbarg->bits, 8);
  EXPECT_EQ(recipe.goldbarg->codes, ThresholdCodes::clamped);
  EXPECT_FALSE(recipe.goldbarg->biases);
  EXPECT_FALSE(recipe.goldbarg->restart_from_quantized);
  EXPECT_EQ(recipe.goldbarg->layers, std::vector<std::string>{"conv*"});
  EXPECT_EQ(to_toml(Recipe::parse(to_toml(recipe))), to_toml(recipe));
  EXPECT_EQ(total_epochs(recipe), 3.5);
  const Recipe least = Recipe::parse("[epochs]\ngoldbarg = 1\n[goldbarg]\nalpha = 0.5\n");
  EXPECT_FALSE(least.goldbarg->bits.has_value());
  EXPECT_EQ(to_toml(Recipe::parse(to_toml(least))), to_toml(least));
}

TEST(Goldbarg, RefusesWhatDoesNotFit) {
  const auto refusal = [](const std::string& text) {
    return test::refusal_of(ErrorCode::recipe, [&] {
      const Compressor compressor(test::small_classifier(), Recipe::parse(text, "r.toml"));
    });
  };
  const std::string head = "[epochs]\ngoldbarg = 1\n[goldbarg]\n";
  test::expect_names(refusal(head), {"r.toml:3", "goldbarg", "alpha"});
  test::expect_names(refusal(head + "alpha = -1\n"), {"r.toml:4", "goldbarg.alpha", "[0, 10]"});
  test::expect_names(refusal(head + "alpha = nan\n"), {"r.toml:4", "goldbarg.alpha"});
  test::expect_names(refusal(head + "bits = 1\n"), {"r.toml:4", "goldbarg.bits", "[2, 16]"});
  test::expect_names(refusal(head + "bits = 17\n"), {"r.toml:4", "goldbarg.bits"});
  test::expect_names(refusal(head + "bits = 8\ncodes = \"gap\"\n"), {"r.toml:5", "goldbarg.codes", "verbatim"});
  test::expect_names(refusal(head + "bits = 8\nlayers = []\n"), {"r.toml:5", "goldbarg.layers"});
  test::expect_names(refusal(head + "bits = 8\nlayers = [\"nothing*\"]\n"), {"r.toml:5", "nothing*", "conv0"});
  test::expect_names(refusal(head + "bits = 8\nstep = 1\n"), {"r.toml:5", "goldbarg.step", "restart_from_quantized"});
  test::expect_names(refusal("[epochs]\ndense = 1\n[goldbarg]\nbits = 8\n"), {"epochs.goldbarg"});
  test::expect_names(refusal("[epochs]\ngoldbarg = 1\n"), {"r.toml:2", "epochs.goldbarg"});
  test::expect_names(refusal(head + "bits = 8\n[average]\n"), {"r.toml:5", "average", "[goldbarg]"});
  test::expect_names(refusal(head + "bits = 8\n[auto]\nbudget_bytes = 100\n"), {"auto"});
  test::expect_names(refusal("[epochs]\ngoldbarg = 1\nquantize = 1\n[quantize]\n[goldbarg]\nbits = 8\n"),
                     {"r.toml:4", "quantize", "[goldbarg]"});
  test::expect_names(refusal("[epochs]\ngoldbarg = 1\nprune = 1\n[prune]\nsparsity = 0.5\n[goldbarg]\nbits = 8\n"),
                     {"r.toml:4", "prune", "[goldbarg]"});
  test::expect_names(refusal("[epochs]\ngoldbarg = 1\nfreeze_batch_norm = 1\n[goldbarg]\nbits = 8\n"),
                     {"r.toml:3", "epochs.freeze_batch_norm"});
}

}  // namespace
}  // namespace podaq
