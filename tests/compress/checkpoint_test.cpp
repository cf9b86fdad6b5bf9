#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <utility>

#include "compress/network_builder.h"
#include "compress/tampering.h"
#include "compress/training_run.h"
#include "podaq/compress/compressor.h"
#include "podaq/core/atomic_file.h"
#include "podaq/core/error.h"
#include "podaq/core/file.h"
#include "podaq/core/text.h"
#include "podaq/format/file.h"
#include "podaq/training/random_sampler.h"
#include "support/temporary_folder.h"

namespace podaq {
namespace {

using test::small_classifier;

using test::full_recipe;
using test::TrainingRun;

constexpr std::int64_t all_steps = 30;

class Resume : public testing::TestWithParam<std::tuple<std::string, std::int64_t>> {};

// design.md 4 "Same seed, same bytes"; C11: pytorch PR #125215, learning rate and group options come back.
TEST_P(Resume, GivesTheFileOfTheUnbrokenRun) {
  const auto& [kind, stop] = GetParam();
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "checkpoint";
  TrainingRun whole(31, kind, 0.01, 1e-2);
  whole.train(stop);
  whole.compressor->save_checkpoint(path);
  whole.train(all_steps - stop);
  const std::vector<std::byte> expected = encode(whole.compressor->convert());

  TrainingRun resumed(99, kind, 0.7, 0.5);
  resumed.train(stop % 7);  // whatever it did before is forgotten
  resumed.resume(path, stop);
  EXPECT_EQ(resumed.optimizer->param_groups()[0].options().get_lr(), 0.01);
  EXPECT_EQ(resumed.compressor->epoch(), stop / TrainingRun::steps_per_epoch);
  resumed.train(all_steps - stop);
  EXPECT_EQ(encode(resumed.compressor->convert()), expected);
}

INSTANTIATE_TEST_SUITE_P(All, Resume,
                         testing::Combine(testing::Values("Adam", "AdamW", "SGD", "RMSprop"),
                                          testing::Values(0, 3, 8, 12, 17, 22, 28)));

// C11: both groups' weight decay.
TEST(Checkpoint, RestoresLearningRateAndGroupOptions) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "checkpoint";
  TrainingRun first(31, "Adam", 0.1, 1e-4);
  first.train(2);
  first.compressor->save_checkpoint(path);
  TrainingRun second(31, "Adam", 0.7, 0.3);
  second.compressor->load_checkpoint(path);
  const auto& groups = second.optimizer->param_groups();
  for (const auto& group : groups) EXPECT_EQ(group.options().get_lr(), 0.1);
  EXPECT_EQ(static_cast<const torch::optim::AdamOptions&>(groups[0].options()).weight_decay(), 1e-4);
  EXPECT_EQ(static_cast<const torch::optim::AdamOptions&>(groups[1].options()).weight_decay(), 0.0);
}

// pytorch/tutorials #905, tfmot #206.
TEST(Checkpoint, HoldsZerosAtExactlyZeroAndMasksThemOnResume) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "checkpoint";
  TrainingRun first(31, "Adam", 0.01, 1e-2);
  first.train(11);
  first.compressor->save_checkpoint(path);
  TrainingRun second(99, "Adam", 0.01, 1e-2);
  second.resume(path, 11);
  const torch::Tensor zeros = first.model->tensor("conv1.weight") == 0;
  EXPECT_EQ(zeros.sum().item<std::int64_t>(), 144);
  EXPECT_TRUE(test::same_bits(second.model->tensor("conv1.weight"), first.model->tensor("conv1.weight")));
  second.train(3);
  EXPECT_TRUE((second.model->tensor("conv1.weight") == 0).equal(zeros));
}

std::string refusal(Compressor& compressor, const std::filesystem::path& path) {
  try {
    compressor.load_checkpoint(path);
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "the checkpoint was accepted";
  return {};
}

// LibTorch matches parameters by place, so momentum would go to whoever stands there.
TEST(Checkpoint, OfAnOptimizerThatNamesTheParametersInAnotherOrderIsRefused) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "checkpoint";
  TrainingRun first(31, "Adam", 0.01, 0);
  first.train(1);
  first.compressor->save_checkpoint(path);

  TrainingRun second(31, "Adam", 0.01, 0);
  auto& parameters = second.optimizer->param_groups()[0].params();
  std::swap(parameters[0], parameters[1]);
  const std::string text = refusal(*second.compressor, path);
  for (const std::string name : {"group 0: conv0.weight", "group 0: conv1.weight"})
    EXPECT_NE(text.find(name), std::string::npos) << text;
}

TEST(Checkpoint, OfAnotherRunIsRefusedWithTheReason) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "checkpoint";
  TrainingRun first(31, "Adam", 0.01, 0);
  first.compressor->save_checkpoint(path);
  TrainingRun other_optimizer(31, "SGD", 0.01, 0);
  EXPECT_NE(refusal(*other_optimizer.compressor, path).find("optimizer"), std::string::npos);

  const auto model = small_classifier();
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.01));
  Compressor other_recipe(model, {.epochs = {.dense = 1}});
  other_recipe.attach(optimizer, {.steps_per_epoch = 5});
  EXPECT_NE(refusal(other_recipe, path).find("recipe"), std::string::npos);

  const auto wide = small_classifier(3);
  torch::optim::Adam wide_optimizer(wide->parameters(), torch::optim::AdamOptions(0.01));
  RandomSampler sampler(80, 1);
  Compressor other_network(wide, full_recipe());
  other_network.attach(wide_optimizer, sampler, {.steps_per_epoch = 5});
  EXPECT_NE(refusal(other_network, path).find("conv0.weight"), std::string::npos);

  Compressor other_length(small_classifier(), full_recipe());
  EXPECT_THROW(other_length.load_checkpoint(path), Error) << "attach comes first";
}

TEST(Checkpoint, ThatIsDamagedOrNoneIsRefused) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "checkpoint";
  TrainingRun run(31, "Adam", 0.01, 0);
  std::ofstream(path) << "not a checkpoint";
  refusal(*run.compressor, path);
  run.compressor->save_checkpoint(path);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  refusal(*run.compressor, path);
  std::filesystem::remove(path);
  EXPECT_THROW(run.compressor->load_checkpoint(path), Error);
}

// LibTorch reads archives without a look at their check sums, so that turned bits would become other weights.
TEST(Checkpoint, OfWhichAnyBitHasTurnedIsRefusedAndChangesNothing) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "checkpoint";
  TrainingRun first(31, "Adam", 0.01, 0);
  first.train(17);
  first.compressor->save_checkpoint(path);
  const std::vector<std::byte> whole = read_file(path, std::uint64_t{1} << 30);
  TrainingRun run(99, "Adam", 0.02, 0);
  const torch::Tensor before = run.model->tensor("conv1.weight").detach().clone();
  for (std::size_t i = 0; i < whole.size(); i += 1 + whole.size() / 100) {
    std::vector<std::byte> damaged = whole;
    damaged[i] ^= std::byte{4};
    write_file_atomically(path, damaged);
    EXPECT_NE(refusal(*run.compressor, path).find("damaged"), std::string::npos) << i;
  }
  EXPECT_TRUE(test::same_bits(run.model->tensor("conv1.weight"), before));
  write_file_atomically(path, whole);
  run.resume(path, 17);
}

torch::jit::Module part_of(const torch::jit::Module& archive, const std::string& name) {
  return archive.attr(name).toModule();
}

// Everything that a run consists of, as bytes: the checkpoint that it would write.
std::vector<std::byte> bytes_of(const TrainingRun& run, const std::filesystem::path& path) {
  run.compressor->save_checkpoint(path);
  return read_file(path, std::uint64_t{1} << 30);
}

// All that quantization keeps between steps: ranges, histograms, learned steps with momentum and gradients.
struct QuantizeVariant {
  std::string name;
  QuantizeRecipe recipe;
};

class ResumeQuantization : public testing::TestWithParam<QuantizeVariant> {};

TEST_P(ResumeQuantization, GivesTheFileOfTheUnbrokenRun) {
  Recipe recipe = full_recipe();
  recipe.quantize = GetParam().recipe;
  const test::TemporaryFolder folder;
  for (const std::string kind : {"SGD", "Adam"})
    for (const std::int64_t stop : {17, 22, 26}) {
      const std::filesystem::path path = folder.path() / concat(kind, stop);
      TrainingRun whole(31, kind, 0.01, 1e-2, recipe);
      whole.train(stop);
      whole.compressor->save_checkpoint(path);
      whole.train(all_steps - stop);
      TrainingRun resumed(99, kind, 0.7, 0.5, recipe);
      resumed.resume(path, stop);
      resumed.train(all_steps - stop);
      EXPECT_EQ(encode(resumed.compressor->convert()), encode(whole.compressor->convert())) << kind << " " << stop;
    }
}

INSTANTIATE_TEST_SUITE_P(
    All, ResumeQuantization,
    testing::Values(QuantizeVariant{"least_squares", {.activation_bits = 4, .observer = LeastSquaresObserver{}}},
                    QuantizeVariant{"percentile", {.observer = PercentileObserver{.percentile = 98}}},
                    QuantizeVariant{"learned",
                                    {.weight_bits = 3,
                                     .activation_bits = 4,
                                     .weight_scale = WeightScale::learned,
                                     .activation_scale = ActivationScale::learned,
                                     .step_learning_rate = 0.1}},
                    QuantizeVariant{"learned_per_tensor",
                                    {.weight_bits = 4,
                                     .weight_scale = WeightScale::learned,
                                     .weight_granularity = WeightGranularity::tensor}}),
    [](const auto& variant) { return variant.param.name; });

using Change = std::function<void(torch::jit::Module&)>;

torch::Tensor range_of_numbers(double minimum, double maximum) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return torch::tensor({minimum, maximum, 1.0, 0.0, 1.0, infinity, -infinity}, torch::kDouble);
}

const std::vector<std::pair<std::string, Change>>& changes() {
  using torch::jit::Module;
  static const std::vector<std::pair<std::string, Change>> all = {
      {"version", [](Module& file) { file.setattr("version", std::int64_t{99}); }},
      {"recipe", [](Module& file) { file.setattr("recipe", std::string("another")); }},
      {"steps", [](Module& file) { file.setattr("steps_per_epoch", std::int64_t{6}); }},
      {"tensor shape", [](Module& file) { part_of(file, "tensors").setattr("tensor0", torch::zeros({3})); }},
      {"tensor type",
       [](Module& file) {
         Module tensors = part_of(file, "tensors");
         tensors.setattr("tensor0", tensors.attr("tensor0").toTensor().to(torch::kLong));
       }},
      {"tensor name", [](Module& file) { part_of(file, "tensors").setattr("name0", std::string("nobody")); }},
      {"tensor count", [](Module& file) { part_of(file, "tensors").setattr("count", std::int64_t{1000000}); }},
      {"gradient name", [](Module& file) { part_of(file, "gradients").setattr("name0", std::string("nobody")); }},
      {"gradient shape", [](Module& file) { part_of(file, "gradients").setattr("tensor0", torch::zeros({3})); }},
      {"mask name", [](Module& file) { part_of(file, "masks").setattr("name0", std::string("norm0.weight")); }},
      {"mask shape", [](Module& file) { part_of(file, "masks").setattr("tensor0", torch::zeros({3}, torch::kBool)); }},
      {"mask type",
       [](Module& file) {
         Module masks = part_of(file, "masks");
         masks.setattr("tensor0", masks.attr("tensor0").toTensor().to(torch::kFloat));
       }},
      {"mask step", [](Module& file) { file.setattr("masks_updated_step", std::int64_t{18}); }},
      {"snapshot", [](Module& file) { part_of(file, "snapshot").setattr("count", std::int64_t{1}); }},
      {"range name", [](Module& file) { part_of(file, "quantizer").setattr("name0", std::string("nobody")); }},
      {"range shape",
       [](Module& file) { part_of(file, "quantizer").setattr("tensor0", torch::zeros({1}, torch::kDouble)); }},
      {"range upside down",
       [](Module& file) { part_of(file, "quantizer").setattr("tensor0", range_of_numbers(1.0, -1.0)); }},
      {"range of NaN",
       [](Module& file) {
         const double nan = std::numeric_limits<double>::quiet_NaN();
         part_of(file, "quantizer").setattr("tensor0", range_of_numbers(nan, nan));
       }},
      {"negative epoch", [](Module& file) { file.setattr("epoch", std::int64_t{-1}); }},
      {"epoch", [](Module& file) { file.setattr("epoch", std::int64_t{7}); }},
      {"steps in epoch", [](Module& file) { file.setattr("steps_in_epoch", std::int64_t{6}); }},
      {"sampler size", [](Module& file) { part_of(file, "sampler").setattr("size", std::int64_t{81}); }},
      {"sampler position", [](Module& file) { part_of(file, "sampler").setattr("position", std::int64_t{-1}); }},
      {"random state", [](Module& file) { file.setattr("random", torch::zeros({7}, torch::kByte)); }},
      {"optimizer kind", [](Module& file) { file.setattr("optimizer_kind", std::string("another")); }},
      {"optimizer group size",
       [](Module& file) {
         Module groups = part_of(part_of(file, "optimizer"), "param_groups");
         part_of(groups, "param_groups/1").setattr("params/size", torch::tensor(std::int64_t{2}));
       }},
      {"optimizer key",
       [](Module& file) {
         Module groups = part_of(part_of(file, "optimizer"), "param_groups");
         part_of(groups, "param_groups/1").setattr("params/0", std::string("no number"));
       }},
  };
  return all;
}

class RefusedCheckpoint : public testing::TestWithParam<std::size_t> {};

TEST_P(RefusedCheckpoint, LeavesTheRunAsItWas) {
  const auto& [what, change] = changes()[GetParam()];
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "damaged";
  const std::filesystem::path own = folder.path() / "own";
  TrainingRun first(31, "SGD", 0.01, 1e-2);
  first.train(17);
  first.compressor->save_checkpoint(path);
  test::tamper(path, change);

  TrainingRun run(99, "SGD", 0.02, 1e-3);
  run.train(8);
  const std::vector<std::byte> before = bytes_of(run, own);
  refusal(*run.compressor, path);
  EXPECT_EQ(bytes_of(run, own), before) << what;
  run.train(all_steps - 8);
  const std::vector<std::byte> got = encode(run.compressor->convert());

  TrainingRun undisturbed(99, "SGD", 0.02, 1e-3);
  undisturbed.train(all_steps);
  EXPECT_EQ(got, encode(undisturbed.compressor->convert())) << what;
}

INSTANTIATE_TEST_SUITE_P(All, RefusedCheckpoint, testing::Range(std::size_t{0}, changes().size()));

// fvcore PR #52, sparseml PR #2201: per-channel parameters of another shape on load.
TEST(Checkpoint, WithLearnedStepsOfAnotherNumberIsRefusedAndChangesNothing) {
  Recipe recipe = full_recipe();
  recipe.quantize = QuantizeRecipe{.weight_scale = WeightScale::learned, .activation_scale = ActivationScale::learned};
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "checkpoint";
  TrainingRun first(31, "SGD", 0.01, 1e-2, recipe);
  first.train(17);
  TrainingRun run(99, "SGD", 0.02, 1e-3, recipe);
  run.train(16);
  const std::vector<std::byte> before = bytes_of(run, folder.path() / "own");
  for (const std::string kind : {"weight_steps:conv1", "weight_momentum:conv1", "activation_steps:input"}) {
    first.compressor->save_checkpoint(path);
    test::tamper(path, [&](torch::jit::Module& file) {
      torch::jit::Module saved = part_of(file, "quantizer");
      for (std::int64_t i = 0; i < saved.attr("count").toInt(); ++i)
        if (saved.attr(concat("name", i)).toStringRef() == kind) saved.setattr(concat("tensor", i), torch::ones({3}));
    });
    refusal(*run.compressor, path);
    EXPECT_EQ(bytes_of(run, folder.path() / "own"), before) << kind;
  }
}

TEST(Checkpoint, OfOtherParameterGroupsLeavesTheMomentum) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "one_group";
  const auto model = small_classifier();
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.5).momentum(0.9));
  RandomSampler sampler(TrainingRun::samples, 1);
  Compressor one_group(model, full_recipe());
  one_group.attach(optimizer, sampler, {.steps_per_epoch = TrainingRun::steps_per_epoch});
  one_group.save_checkpoint(path);

  TrainingRun run(31, "SGD", 0.01, 1e-2);
  run.train(8);
  const std::vector<std::byte> before = bytes_of(run, folder.path() / "own");
  EXPECT_NE(refusal(*run.compressor, path).find("group"), std::string::npos);
  EXPECT_EQ(bytes_of(run, folder.path() / "own"), before);
  EXPECT_EQ(run.optimizer->state().size(), run.model->parameters().size());
}

TEST(Checkpoint, ThatLacksPartsIsRefused) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "parts";
  torch::serialize::OutputArchive archive;
  archive.write("format", c10::IValue("podaq checkpoint"));
  archive.write("version", c10::IValue(std::int64_t{2}));
  archive.save_to(path.string());
  compress_detail::write_sealed(path, read_file(path, std::uint64_t{1} << 30));
  TrainingRun run(31, "Adam", 0.01, 0);
  EXPECT_NE(refusal(*run.compressor, path).find("version 2"), std::string::npos);
}

}  // namespace
}  // namespace podaq
