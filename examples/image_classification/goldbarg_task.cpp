#include "image_classification/goldbarg_task.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>

#include "podaq/core/error.h"
#include "podaq/data/split.h"

namespace podaq::images {
namespace {

constexpr std::array alphas = {0.0, 0.25, 0.5, 0.75};
constexpr std::array<std::optional<int>, 4> bit_counts = {std::nullopt, 8, 4, 3};

Strategy strategy_of(double alpha, std::optional<int> bits, double epochs) {
  Strategy strategy{
      .name = fmt::format("alpha{}-{}", alpha, bits ? fmt::format("{}bits", *bits) : "float"),
      .recipe = {.epochs = {.goldbarg = epochs}, .goldbarg = GoldbargRecipe{.alpha = alpha, .bits = bits}}};
  if (alpha == 0 && !bits) strategy.recipe = {.epochs = {.dense = epochs}};
  return strategy;
}

}  // namespace

Task make_goldbarg_task(const TaskOptions& options, const GoldbargOptions& goldbarg) {
  if (goldbarg.epochs < 1 || goldbarg.epochs > 1000)
    throw Error(ErrorCode::invalid_argument, fmt::format("epochs is {}, must lie in [1, 1000]", goldbarg.epochs));
  if (!(goldbarg.share > 0 && goldbarg.share <= 1))
    throw Error(ErrorCode::invalid_argument, fmt::format("share is {}, must lie in (0, 1]", goldbarg.share));
  Task task = make_task(options);
  task.name = "images-goldbarg";
  task.description = "Fashion-MNIST, CNN-A, the thesis's strategy";
  task.identity += fmt::format(", share {}", goldbarg.share);
  task.load_data = [load = std::move(task.load_data), share = goldbarg.share](std::uint64_t seed, int threads) {
    TaskData data = load(seed, threads);
    const auto parts = stratified_split(data.train, {.fractions = {share}, .seed = seed});
    data.train = subset(data.train, parts.at(0));
    return data;
  };
  task.shared_epochs = 0;
  task.training.warm_up_epochs = 0.25 * static_cast<double>(goldbarg.epochs);
  task.strategies.clear();
  for (const double alpha : alphas)
    for (const std::optional<int> bits : bit_counts)
      task.strategies.push_back(strategy_of(alpha, bits, static_cast<double>(goldbarg.epochs)));
  return task;
}

}  // namespace podaq::images
