#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "compress/training_run.h"
#include "podaq/compress/compressor.h"
#include "podaq/format/file.h"

namespace podaq {
namespace {

using test::TrainingRun;

constexpr std::int64_t evaluated_steps = 30;

// All that a training loop may look at between two steps.
void evaluate(TrainingRun& run) {
  {
    const torch::NoGradGuard no_grad;
    run.model->eval();
    static_cast<void>(run.model->forward(run.data.samples * 100));
  }
  static_cast<void>(to_text(run.compressor->report()));
  static_cast<void>(run.compressor->placement_text());
  run.compressor->swap_average();
  run.compressor->swap_average();
  if (run.compressor->stage() > Stage::quantize) static_cast<void>(run.compressor->convert());
  run.model->train();
}

std::vector<std::byte> file_after(const Recipe& recipe, bool evaluates) {
  TrainingRun run(31, "Adam", 0.01, 1e-2, recipe);
  for (std::int64_t step = 0; step < evaluated_steps; ++step) {
    run.train(1);
    if (evaluates) evaluate(run);
  }
  return encode(run.compressor->convert());
}

class EvaluationBetweenSteps : public testing::TestWithParam<std::pair<std::string, QuantizeRecipe>> {};

// Lightning #8507: observers learn from validation data.
TEST_P(EvaluationBetweenSteps, ChangesNoByteOfTheFile) {
  Recipe recipe = test::full_recipe();
  recipe.quantize = GetParam().second;
  recipe.average = AverageRecipe{.decay = 0.9};
  EXPECT_EQ(file_after(recipe, true), file_after(recipe, false));
}

INSTANTIATE_TEST_SUITE_P(
    All, EvaluationBetweenSteps,
    testing::Values(std::pair<std::string, QuantizeRecipe>("averaged_ranges", {}),
                    std::pair<std::string, QuantizeRecipe>("histograms", {.observer = LeastSquaresObserver{}}),
                    std::pair<std::string, QuantizeRecipe>("learned_steps",
                                                           {.weight_bits = 4,
                                                            .weight_scale = WeightScale::learned,
                                                            .activation_scale = ActivationScale::learned})),
    [](const auto& parameter) { return parameter.param.first; });

}  // namespace
}  // namespace podaq
