#include "podaq/compress/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>
#include <variant>

#include "compress/auto_recipe.h"
#include "compress/goldbarg_recipe.h"
#include "compress/prune_words.h"
#include "compress/recipe_checker.h"
#include "compress/recipe_words.h"
#include "compress/stages.h"
#include "compress/toml_text.h"
#include "podaq/core/sha256.h"

namespace podaq {
namespace {

using compress_detail::list_of;
using compress_detail::quoted;
using compress_detail::RecipeChecker;

void check_stages(const RecipeChecker& checker, const Recipe& recipe) {
  const StageLengths& epochs = recipe.epochs;
  constexpr double longest = 1e6;
  for (const auto& [stage, length] : compress_detail::stage_lengths)
    checker.require_range(epochs.*length, 0, longest, fmt::format("epochs.{}", name_of(stage)));

  checker.require(total_epochs(recipe) > 0 || recipe.quantize, "epochs",
                  "sum to 0: give at least one stage a length (only a recipe with [quantize] can do without training)");
  checker.require(total_epochs(recipe) > 0 || !recipe.prune, "epochs.prune", "is 0, but there is a [prune]");
  checker.require(recipe.prune || epochs.prune == 0, "epochs.prune", "is set, but there is no [prune]");
  checker.require(recipe.prune || epochs.recover == 0, "epochs.recover", "is set, but there is no [prune]");
  checker.require(recipe.quantize || epochs.quantize == 0, "epochs.quantize", "is set, but there is no [quantize]");
  checker.require(recipe.quantize || epochs.freeze_observers == 0, "epochs.freeze_observers",
                  "is set, but there is no [quantize]");
  const bool calibrates = recipe.quantize && (recipe.quantize->post_training || total_epochs(recipe) == 0);
  checker.require(!recipe.quantize || calibrates || epochs.quantize + epochs.freeze_batch_norm > 0, "epochs.quantize",
                  "is 0, but [quantize] needs a stage in which observers see data: give quantize or "
                  "freeze_batch_norm a length, or add [quantize.post_training] and call Compressor::calibrate");
}

// 1 is let through here: only with the network at hand can the nearest reachable sparsity be named.
void check_sparsity(const RecipeChecker& checker, double sparsity, const Pattern& pattern, const std::string& field) {
  checker.require_range(sparsity, 0, 1, field);
  const auto* n_of_m = std::get_if<NOfMPattern>(&pattern);
  if (n_of_m == nullptr || sparsity == 0) return;
  const double reachable = compress_detail::sparsity_of(*n_of_m);
  checker.require(std::abs(sparsity - reachable) < 1e-6, field,
                  fmt::format("is {}, but the pattern {} prunes the share {}; give that, or leave it out", sparsity,
                              name_of(pattern), reachable));
}

void check_criterion(const RecipeChecker& checker, const Recipe& recipe) {
  const PruneRecipe& prune = *recipe.prune;
  const std::string problem = problem_with(prune.criterion, prune.pattern);
  checker.require(problem.empty(), "prune.criterion", problem);
  if (gathers(prune.criterion)) {
    const std::string needs_gradients =
        fmt::format("goes not with the criterion {}, which must see gradients of the prune stage before it prunes",
                    name_of(prune.criterion));
    checker.require(prune.schedule != ScheduleKind::constant, "prune.schedule",
                    "is constant, which " + needs_gradients + "; use one_shot or a ramp");
    checker.require(prune.initial_sparsity == 0, "prune.initial_sparsity", needs_gradients);
    checker.require(recipe.epochs.prune > 0, "epochs.prune", "is 0, which " + needs_gradients);
  }
  if (!std::holds_alternative<DeviationThreshold>(prune.criterion)) return;
  const std::string no_target = "goes not with the criterion threshold, which has no target; leave it out";
  checker.require(prune.sparsity == 0, "prune.sparsity", no_target);
  checker.require(prune.by_layer.empty(), "prune.by_layer", no_target);
  checker.require(prune.distribution == Distribution::uniform, "prune.distribution", no_target);
  checker.require(!prune.regrowth, "prune.regrowth", "goes not with the criterion threshold; leave it out");
  checker.require(prune.schedule != ScheduleKind::exponential && prune.schedule != ScheduleKind::iterative,
                  "prune.schedule",
                  "goes not with the criterion threshold; use constant, one_shot, linear or cubic, which ramp alpha");
}

void check_channels(const RecipeChecker& checker, const Recipe& recipe) {
  const PruneRecipe& prune = *recipe.prune;
  if (!std::holds_alternative<ChannelPattern>(prune.pattern)) {
    checker.require(!prune.remove_channels, "prune.remove_channels", "is for the pattern channels alone; leave it out");
    return;
  }
  checker.require(!prune.regrowth, "prune.regrowth",
                  "goes not with the pattern channels, whose pruned channels get no gradient; leave it out");
  checker.require(!removes_channels(prune) || recipe.epochs.prune > 0, "epochs.prune",
                  "is 0, but channels are removed when the prune stage ends; give it a length, or set "
                  "prune.remove_channels = false");
}

void check_pattern(const RecipeChecker& checker, const Recipe& recipe) {
  const PruneRecipe& prune = *recipe.prune;
  const std::string problem = problem_with(prune.pattern);
  checker.require(problem.empty(), "prune.pattern", problem);
  check_channels(checker, recipe);
  if (!std::holds_alternative<NOfMPattern>(prune.pattern)) return;
  checker.require(
      prune.distribution == Distribution::uniform, "prune.distribution",
      fmt::format("must be uniform under the pattern {}, which fixes each layer's share", name_of(prune.pattern)));
  checker.require(!prune.regrowth, "prune.regrowth",
                  fmt::format("goes not with the pattern {}; leave it out", name_of(prune.pattern)));
}

void check_prune_schedule(const RecipeChecker& checker, const Recipe& recipe) {
  const PruneRecipe& prune = *recipe.prune;
  if (prune.update_every) checker.require_range(static_cast<double>(*prune.update_every), 1, 1e8, "prune.update_every");
  const bool is_iterative = prune.schedule == ScheduleKind::iterative;
  checker.require(is_iterative || !prune.rounds, "prune.rounds", "is for the schedule iterative alone; leave it out");
  checker.require(!is_iterative || prune.rounds, "prune.schedule", "is iterative, which needs prune.rounds");
  if (prune.rounds) checker.require_range(static_cast<double>(*prune.rounds), 1, 1000, "prune.rounds");
  if (prune.rewind_epoch) {
    checker.require(is_iterative, "prune.rewind_epoch", "is for the schedule iterative alone; leave it out");
    const StageLengths& epochs = recipe.epochs;
    const double first_round = epochs.dense + epochs.prune / static_cast<double>(*prune.rounds);
    checker.require(
        *prune.rewind_epoch >= 0 && *prune.rewind_epoch < first_round, "prune.rewind_epoch",
        fmt::format("is {}, must lie in [0, {}), before the first round ends", *prune.rewind_epoch, first_round));
    checker.require(total_epochs(recipe) > epochs.dense + epochs.prune, "prune.rewind_epoch",
                    "rewinds at the end of the prune stage too, so a stage must follow: give epochs.recover a length");
  }
  if (prune.regrowth) {
    const std::string problem = problem_with(*prune.regrowth);
    checker.require(problem.empty(), "prune.regrowth", problem);
    checker.require(recipe.epochs.prune > 0, "prune.regrowth",
                    "moves masks in the prune stage, but epochs.prune is 0; give it a length");
  }
}

void check_folding(const RecipeChecker& checker, const Recipe& recipe) {
  if (!recipe.prune->fold_rounded_zeros) return;
  const Stage stage = *recipe.prune->fold_rounded_zeros;
  checker.require(stage >= Stage::quantize && stage <= Stage::freeze_observers, "prune.fold_rounded_zeros",
                  fmt::format("is {}, must be a stage that quantizes", name_of(stage)));
  checker.require(recipe.quantize.has_value(), "prune.fold_rounded_zeros", "is set, but there is no [quantize]");
  checker.require(compress_detail::length_of(recipe.epochs, stage) > 0, "prune.fold_rounded_zeros",
                  fmt::format("is {0}, but epochs.{0} is 0", name_of(stage)));
}

void check_prune(const RecipeChecker& checker, const Recipe& recipe) {
  const PruneRecipe& prune = *recipe.prune;
  check_pattern(checker, recipe);
  check_sparsity(checker, prune.sparsity, prune.pattern, "prune.sparsity");
  checker.require_range(prune.initial_sparsity, 0, compress_detail::target_sparsity(prune), "prune.initial_sparsity");
  check_criterion(checker, recipe);
  check_prune_schedule(checker, recipe);
  check_folding(checker, recipe);
  checker.require_globs(prune.layers, "prune.layers");
  for (const LayerSparsity& exception : prune.by_layer) {
    checker.require(!exception.layers.empty(), "prune.by_layer", "holds an empty name");
    check_sparsity(checker, exception.sparsity, prune.pattern, fmt::format("prune.by_layer.\"{}\"", exception.layers));
  }
}

void check_bits(const RecipeChecker& checker, std::span<const BitsFor> exceptions, int lowest,
                const std::string& field) {
  for (const BitsFor& exception : exceptions) {
    checker.require(!exception.names.empty(), field, "holds an empty name");
    checker.require_range(exception.bits, lowest, 8, fmt::format("{}.\"{}\"", field, exception.names));
  }
}

void check_observer(const RecipeChecker& checker, const ObserverOptions& observer) {
  if (const auto* ema = std::get_if<EmaObserver>(&observer))
    checker.require(ema->averaging_constant > 0 && ema->averaging_constant <= 1, "quantize.averaging_constant",
                    fmt::format("is {}, must lie in (0, 1]", ema->averaging_constant));
  if (const auto* percentile = std::get_if<PercentileObserver>(&observer))
    checker.require(percentile->percentile > 50 && percentile->percentile <= 100, "quantize.percentile",
                    fmt::format("is {}, must lie in (50, 100]", percentile->percentile));
  checker.require(!std::holds_alternative<FixedObserver>(observer), "quantize.observer",
                  "cannot be a fixed range for all values; name values in quantize.fixed_ranges");
}

void check_post_training(const RecipeChecker& checker, const PostTrainingRecipe& recipe) {
  const std::string table = "quantize.post_training.";
  checker.require_range(recipe.rounding.iterations, 1, 1000000, table + "rounding_iterations");
  checker.require(recipe.rounding.learning_rate > 0 && recipe.rounding.learning_rate <= 1,
                  table + "rounding_learning_rate",
                  fmt::format("is {}, must lie in (0, 1]", recipe.rounding.learning_rate));
  checker.require_range(recipe.rounding.regularization, 0, 1000, table + "rounding_regularization");
}

void check_quantize(const RecipeChecker& checker, const QuantizeRecipe& quantize) {
  checker.require_range(quantize.weight_bits, 2, 8, "quantize.weight_bits");
  checker.require_range(quantize.activation_bits, 4, 8, "quantize.activation_bits");
  checker.require_range(quantize.scale_mantissa_bits, 0, 23, "quantize.scale_mantissa_bits");
  checker.require(quantize.scale_mantissa_bits == 23 || quantize.weight_scale != WeightScale::learned,
                  "quantize.scale_mantissa_bits", "goes not with weight_scale = \"learned\"; leave it out");
  checker.require_range(quantize.step_learning_rate, 0, 1000, "quantize.step_learning_rate");
  check_observer(checker, quantize.observer);
  for (const FixedRangeFor& fixed : quantize.fixed_ranges) {
    const std::string field = fmt::format("quantize.fixed_ranges.\"{}\"", fixed.values);
    constexpr double largest = std::numeric_limits<float>::max();
    checker.require(!fixed.values.empty(), "quantize.fixed_ranges", "holds an empty name");
    checker.require_range(fixed.range.minimum, -largest, largest, field);
    checker.require_range(fixed.range.maximum, fixed.range.minimum, largest, field);
  }
  checker.require_globs(quantize.layers, "quantize.layers");
  checker.require_globs(quantize.float_layers, "quantize.float_layers");
  checker.require_globs(quantize.float_values, "quantize.float_values");
  checker.require_globs(quantize.quantized_values, "quantize.quantized_values");
  if (quantize.post_training) check_post_training(checker, *quantize.post_training);
  check_bits(checker, quantize.weight_bits_by_layer, 2, "quantize.weight_bits_by_layer");
  check_bits(checker, quantize.activation_bits_by_layer, 4, "quantize.activation_bits_by_layer");
  check_bits(checker, quantize.activation_bits_by_value, 4, "quantize.activation_bits_by_value");
}

std::string toml_of(const StageLengths& epochs) {
  std::string text = "[epochs]\n";
  for (const auto& [stage, length] : compress_detail::stage_lengths)
    text += fmt::format("{} = {}\n", name_of(stage), epochs.*length);
  return text;
}

std::string toml_of(const PruneRecipe& prune) {
  std::string text = fmt::format(
      "\n[prune]\nsparsity = {}\ninitial_sparsity = {}\ncriterion = {}\npattern = \"{}\"\ndistribution = \"{}\"\n"
      "schedule = \"{}\"\nlayers = {}\n",
      prune.sparsity, prune.initial_sparsity, quoted(compress_detail::criterion_word(prune.criterion)),
      name_of(prune.pattern), compress_detail::word_of(prune.distribution), compress_detail::word_of(prune.schedule),
      list_of(prune.layers));
  if (const auto* threshold = std::get_if<DeviationThreshold>(&prune.criterion))
    text += fmt::format("alpha = {}\n", threshold->alpha);
  if (const auto* random = std::get_if<RandomScore>(&prune.criterion)) text += fmt::format("seed = {}\n", random->seed);
  if (prune.update_every) text += fmt::format("update_every = {}\n", *prune.update_every);
  if (prune.rounds) text += fmt::format("rounds = {}\n", *prune.rounds);
  if (prune.rewind_epoch) text += fmt::format("rewind_epoch = {}\n", *prune.rewind_epoch);
  if (prune.regrowth)
    text +=
        fmt::format("regrowth = {{ every = {}, fraction = {} }}\n", prune.regrowth->every, prune.regrowth->fraction);
  if (const auto* channels = std::get_if<ChannelPattern>(&prune.pattern))
    text += fmt::format("align = {}\n", channels->align);
  if (prune.remove_channels) text += fmt::format("remove_channels = {}\n", *prune.remove_channels);
  if (prune.fold_rounded_zeros)
    text += fmt::format("fold_rounded_zeros = \"{}\"\n", name_of(*prune.fold_rounded_zeros));
  if (!prune.by_layer.empty()) text += "\n[prune.by_layer]\n";
  for (const LayerSparsity& exception : prune.by_layer)
    text += fmt::format("{} = {}\n", quoted(exception.layers), exception.sparsity);
  return text;
}

std::string bits_table(std::span<const BitsFor> exceptions, std::string_view name) {
  std::string text = exceptions.empty() ? "" : fmt::format("\n[quantize.{}]\n", name);
  for (const BitsFor& exception : exceptions) text += fmt::format("{} = {}\n", quoted(exception.names), exception.bits);
  return text;
}

std::string toml_of(const ObserverOptions& observer) {
  std::string text = fmt::format("observer = \"{}\"\n", name_of(observer));
  if (const auto* ema = std::get_if<EmaObserver>(&observer))
    text += fmt::format("averaging_constant = {}\n", ema->averaging_constant);
  if (const auto* percentile = std::get_if<PercentileObserver>(&observer))
    text += fmt::format("percentile = {}\n", percentile->percentile);
  return text;
}

std::string toml_of(const PostTrainingRecipe& recipe) {
  return fmt::format(
      "\n[quantize.post_training]\nequalize_layers = {}\nadaptive_rounding = {}\nbias_correction = {}\n"
      "rounding_iterations = {}\nrounding_learning_rate = {}\nrounding_regularization = {}\n",
      recipe.equalize_layers, recipe.adaptive_rounding, recipe.bias_correction, recipe.rounding.iterations,
      recipe.rounding.learning_rate, recipe.rounding.regularization);
}

std::string toml_of(const QuantizeRecipe& quantize) {
  std::string text = fmt::format(
      "\n[quantize]\nweight_bits = {}\nactivation_bits = {}\nweight_scale = \"{}\"\nweight_granularity = \"{}\"\n"
      "scale_mantissa_bits = {}\nactivation_scale = \"{}\"\nstep_learning_rate = {}\n{}layers = {}\nfloat_layers = "
      "{}\nfloat_values = {}\n"
      "quantized_values = {}\n",
      quantize.weight_bits, quantize.activation_bits, compress_detail::word_of(quantize.weight_scale),
      compress_detail::word_of(quantize.weight_granularity), quantize.scale_mantissa_bits,
      compress_detail::word_of(quantize.activation_scale), quantize.step_learning_rate, toml_of(quantize.observer),
      list_of(quantize.layers), list_of(quantize.float_layers), list_of(quantize.float_values),
      list_of(quantize.quantized_values));
  if (!quantize.fixed_ranges.empty()) text += "\n[quantize.fixed_ranges]\n";
  for (const FixedRangeFor& fixed : quantize.fixed_ranges)
    text += fmt::format("{} = [{}, {}]\n", quoted(fixed.values), fixed.range.minimum, fixed.range.maximum);
  text += bits_table(quantize.weight_bits_by_layer, "weight_bits_by_layer");
  text += bits_table(quantize.activation_bits_by_layer, "activation_bits_by_layer");
  text += bits_table(quantize.activation_bits_by_value, "activation_bits_by_value");
  if (quantize.post_training) text += toml_of(*quantize.post_training);
  return text;
}

}  // namespace

std::string_view name_of(Stage stage) {
  constexpr std::array<std::string_view, compress_detail::stage_lengths.size()> names = {
      "dense", "prune", "recover", "quantize", "freeze_batch_norm", "freeze_observers", "goldbarg"};
  return names[static_cast<std::size_t>(stage)];
}

double total_epochs(const Recipe& recipe) {
  return compress_detail::epochs_until_end(recipe.epochs, compress_detail::stage_lengths.back().first);
}

std::int64_t whole_epochs(const Recipe& recipe) {
  constexpr double rounding = 1e-9;  // 0.1 * 3 + 0.7 is one epoch, not two
  const double total = total_epochs(recipe);
  return std::max(static_cast<std::int64_t>(std::ceil(total - rounding)), static_cast<std::int64_t>(total > 0));
}

void validate(const Recipe& recipe) {
  const RecipeChecker checker(recipe);
  if (recipe.prune) check_prune(checker, recipe);
  if (recipe.quantize) check_quantize(checker, *recipe.quantize);
  if (recipe.average)
    checker.require(recipe.average->decay >= 0 && recipe.average->decay < 1, "average.decay",
                    fmt::format("is {}, must lie in [0, 1)", recipe.average->decay));
  check_stages(checker, recipe);
  compress_detail::check_goldbarg(recipe);
  compress_detail::check_auto(recipe);
}

std::string to_toml(const Recipe& recipe) {
  std::string text = toml_of(recipe.epochs);
  if (recipe.prune) text += toml_of(*recipe.prune);
  if (recipe.quantize) text += toml_of(*recipe.quantize);
  if (recipe.goldbarg) text += compress_detail::toml_of(*recipe.goldbarg);
  if (recipe.average) text += fmt::format("\n[average]\ndecay = {}\n", recipe.average->decay);
  if (recipe.automatic) text += compress_detail::toml_of(*recipe.automatic);
  return text;
}

std::string recipe_hash(const Recipe& recipe) {
  const std::string text = to_toml(recipe);
  const Sha256Digest digest = sha256(std::as_bytes(std::span(text)));
  return to_hexadecimal(digest);
}

}  // namespace podaq
