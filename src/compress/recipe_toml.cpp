#include <fmt/format.h>
#include <toml++/toml.h>

#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "compress/prune_words.h"
#include "compress/recipe_table.h"
#include "compress/stages.h"
#include "podaq/compress/recipe.h"
#include "podaq/core/error.h"
#include "podaq/core/file.h"

namespace podaq {
namespace {

using compress_detail::RecipeTable;

constexpr std::uint64_t largest_recipe = 1 << 20;

StageLengths read_epochs(const RecipeTable& table) {
  std::vector<std::string_view> names;
  for (const auto& [stage, length] : compress_detail::stage_lengths) names.push_back(name_of(stage));
  table.allow_only(names);
  StageLengths epochs;
  for (const auto& [stage, length] : compress_detail::stage_lengths) table.read(name_of(stage), epochs.*length);
  return epochs;
}

Regrowth read_regrowth(const RecipeTable& table) {
  table.allow_only({"every", "fraction"});
  Regrowth regrowth;
  table.read("every", regrowth.every);
  table.read("fraction", regrowth.fraction);
  return regrowth;
}

// The criterion and the numbers that belong to it.
void read_criterion(const RecipeTable& table, Criterion& criterion) {
  table.read_word("criterion", criterion, parse_criterion,
                  "\"magnitude_l1\", \"magnitude_l2\", \"taylor\", \"movement\", \"lamp\", \"geometric_median\", "
                  "\"batch_norm_scale\", \"random\", \"threshold\"; functions of one's own are given in C++");
  if (auto* random = std::get_if<RandomScore>(&criterion)) {
    std::int64_t seed = static_cast<std::int64_t>(random->seed);
    table.read("seed", seed);
    if (seed < 0) table.refuse("seed", "must not be negative");
    random->seed = static_cast<std::uint64_t>(seed);
  } else {
    table.refuse("seed", "is for the criterion random alone; leave it out");
  }
  if (auto* threshold = std::get_if<DeviationThreshold>(&criterion))
    table.read("alpha", threshold->alpha);
  else
    table.refuse("alpha", "is for the criterion threshold alone; leave it out");
}

PruneRecipe read_prune(const RecipeTable& table) {
  table.allow_only({"sparsity", "initial_sparsity", "criterion", "alpha", "seed", "pattern", "distribution", "schedule",
                    "rounds", "rewind_epoch", "update_every", "regrowth", "fold_rounded_zeros", "align",
                    "remove_channels", "layers", "by_layer"});
  PruneRecipe prune;
  table.read("sparsity", prune.sparsity);
  table.read("initial_sparsity", prune.initial_sparsity);
  read_criterion(table, prune.criterion);
  table.read_word(
      "pattern", prune.pattern, parse_pattern,
      "\"unstructured\", \"n:m\" as in \"2:4\" (n < m, up to 1024), \"rows x columns\" as in \"4x1\" (up to "
      "1024), \"channels\"");
  if (auto* channels = std::get_if<ChannelPattern>(&prune.pattern))
    table.read("align", channels->align);
  else
    table.refuse("align", "is for the pattern channels alone; leave it out");
  table.read("remove_channels", prune.remove_channels);
  table.read("distribution", prune.distribution, std::span(compress_detail::distribution_words));
  table.read("schedule", prune.schedule, std::span(compress_detail::schedule_words));
  table.read("rounds", prune.rounds);
  table.read("rewind_epoch", prune.rewind_epoch);
  table.read("update_every", prune.update_every);
  if (const auto regrowth = table.child("regrowth")) prune.regrowth = read_regrowth(*regrowth);
  table.read_word(
      "fold_rounded_zeros", prune.fold_rounded_zeros,
      [](std::string_view word) -> std::optional<Stage> {
        for (const Stage stage : {Stage::quantize, Stage::freeze_batch_norm, Stage::freeze_observers})
          if (name_of(stage) == word) return stage;
        return std::nullopt;
      },
      "\"quantize\", \"freeze_batch_norm\", \"freeze_observers\"");
  table.read("layers", prune.layers);
  table.read_by_layer("by_layer", [&](std::string glob, const toml::node& value, const std::string& path) {
    prune.by_layer.push_back({.layers = std::move(glob), .sparsity = table.number_at(value, path)});
  });
  return prune;
}

ObserverOptions read_observer(const RecipeTable& table) {
  ObserverOptions observer;
  table.read("observer", observer,
             {{"ema", EmaObserver{}},
              {"min_max", MinMaxObserver{}},
              {"percentile", PercentileObserver{}},
              {"least_squares", LeastSquaresObserver{}},
              {"least_divergence", LeastDivergenceObserver{}}});
  if (auto* ema = std::get_if<EmaObserver>(&observer))
    table.read("averaging_constant", ema->averaging_constant);
  else
    table.refuse("averaging_constant", "belongs to observer = \"ema\"");
  if (auto* percentile = std::get_if<PercentileObserver>(&observer))
    table.read("percentile", percentile->percentile);
  else
    table.refuse("percentile", "belongs to observer = \"percentile\"");
  return observer;
}

PostTrainingRecipe read_post_training(const RecipeTable& table) {
  table.allow_only({"equalize_layers", "adaptive_rounding", "bias_correction", "rounding_iterations",
                    "rounding_learning_rate", "rounding_regularization"});
  PostTrainingRecipe recipe;
  table.read("equalize_layers", recipe.equalize_layers);
  table.read("adaptive_rounding", recipe.adaptive_rounding);
  table.read("bias_correction", recipe.bias_correction);
  table.read("rounding_iterations", recipe.rounding.iterations);
  table.read("rounding_learning_rate", recipe.rounding.learning_rate);
  table.read("rounding_regularization", recipe.rounding.regularization);
  return recipe;
}

QuantizeRecipe read_quantize(const RecipeTable& table) {
  table.allow_only({"weight_bits", "activation_bits", "weight_scale", "weight_granularity", "scale_mantissa_bits",
                    "activation_scale", "step_learning_rate", "observer", "averaging_constant", "percentile",
                    "fixed_ranges", "layers", "float_layers", "weight_bits_by_layer", "activation_bits_by_layer",
                    "activation_bits_by_value", "float_values", "quantized_values", "post_training"});
  QuantizeRecipe quantize;
  table.read("weight_bits", quantize.weight_bits);
  table.read("activation_bits", quantize.activation_bits);
  table.read("weight_scale", quantize.weight_scale);
  table.read("weight_granularity", quantize.weight_granularity);
  table.read("scale_mantissa_bits", quantize.scale_mantissa_bits);
  table.read("activation_scale", quantize.activation_scale);
  table.read("step_learning_rate", quantize.step_learning_rate);
  quantize.observer = read_observer(table);
  table.read_by_layer("fixed_ranges", [&](std::string glob, const toml::node& value, const std::string& path) {
    quantize.fixed_ranges.push_back({.values = std::move(glob), .range = table.range_at(value, path)});
  });
  table.read("layers", quantize.layers);
  table.read("float_layers", quantize.float_layers);
  table.read("weight_bits_by_layer", quantize.weight_bits_by_layer);
  table.read("activation_bits_by_layer", quantize.activation_bits_by_layer);
  table.read("activation_bits_by_value", quantize.activation_bits_by_value);
  table.read("float_values", quantize.float_values);
  table.read("quantized_values", quantize.quantized_values);
  if (const auto post_training = table.child("post_training"))
    quantize.post_training = read_post_training(*post_training);
  return quantize;
}

GoldbargRecipe read_goldbarg(const RecipeTable& table) {
  table.allow_only({"alpha", "bits", "codes", "biases", "restart_from_quantized", "layers"});
  GoldbargRecipe goldbarg;
  table.read("alpha", goldbarg.alpha);
  table.read("bits", goldbarg.bits);
  table.read("codes", goldbarg.codes);
  table.read("biases", goldbarg.biases);
  table.read("restart_from_quantized", goldbarg.restart_from_quantized);
  table.read("layers", goldbarg.layers);
  return goldbarg;
}

AverageRecipe read_average(const RecipeTable& table) {
  table.allow_only({"decay"});
  AverageRecipe average;
  table.read("decay", average.decay);
  return average;
}

AutoRecipe read_auto(const RecipeTable& table) {
  table.allow_only({"budget_bytes", "budget_us", "batch", "sparsities", "weight_bits"});
  AutoRecipe search;
  table.read("budget_bytes", search.budget_bytes);
  table.read("budget_us", search.budget_us);
  table.read("batch", search.batch);
  table.read_numbers("sparsities", [&](const toml::node& item, const std::string& path) {
    search.sparsities.push_back(table.number_at(item, path));
  });
  table.read_numbers("weight_bits", [&](const toml::node& item, const std::string& path) {
    search.weight_bits.push_back(table.integer_at(item, path));
  });
  return search;
}

toml::table parsed(std::string_view text, const std::string& source) {
  try {
    return toml::parse(text, source);
  } catch (const toml::parse_error& error) {
    throw Error(ErrorCode::recipe, fmt::format("{}:{}: {}", source, error.source().begin.line, error.description()));
  }
}

}  // namespace

Recipe Recipe::parse(std::string_view text, const std::string& source) {
  const toml::table root = parsed(text, source);
  Recipe recipe;
  const RecipeTable table(root, "", source, recipe.origins);
  table.allow_only({"epochs", "prune", "quantize", "goldbarg", "average", "auto"});
  if (const auto epochs = table.child("epochs")) recipe.epochs = read_epochs(*epochs);
  if (const auto prune = table.child("prune")) recipe.prune = read_prune(*prune);
  if (const auto quantize = table.child("quantize")) recipe.quantize = read_quantize(*quantize);
  if (const auto goldbarg = table.child("goldbarg")) recipe.goldbarg = read_goldbarg(*goldbarg);
  if (const auto average = table.child("average")) recipe.average = read_average(*average);
  if (const auto search = table.child("auto")) recipe.automatic = read_auto(*search);
  validate(recipe);
  return recipe;
}

Recipe Recipe::load(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = read_file(path, largest_recipe);
  return parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.string());
}

}  // namespace podaq
