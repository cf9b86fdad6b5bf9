#include "compress/auto_recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <variant>

#include "compress/prune_words.h"
#include "compress/refuse_recipe.h"

namespace podaq::compress_detail {
namespace {

constexpr std::int64_t most_bytes = std::int64_t{1} << 40;
constexpr std::int64_t largest_batch = 65536;
constexpr std::string_view is_searched = "is searched for, since there is an [auto]; leave it out";

void check_budget(const Recipe& recipe, const AutoRecipe& search) {
  if (search.budget_bytes.has_value() == search.budget_us.has_value())
    refuse_recipe(recipe, "auto",
                  search.budget_us ? "has both budget_bytes and budget_us; leave one out"
                                   : "has no budget; give it budget_bytes or budget_us");
  if (search.budget_bytes && (*search.budget_bytes < 1 || *search.budget_bytes > most_bytes))
    refuse_recipe(recipe, "auto.budget_bytes",
                  fmt::format("is {}, must lie in [1, {}]", *search.budget_bytes, most_bytes));
  if (search.budget_us && !(*search.budget_us > 0 && std::isfinite(*search.budget_us)))
    refuse_recipe(recipe, "auto.budget_us", fmt::format("is {}, must be above 0 and finite", *search.budget_us));
  if (search.budget_us && !recipe.quantize)
    refuse_recipe(recipe, "auto.budget_us",
                  "needs a [quantize]: the cost model knows layers on codes alone; add one, or give budget_bytes");
  if (search.batch < 1 || search.batch > largest_batch)
    refuse_recipe(recipe, "auto.batch", fmt::format("is {}, must lie in [1, {}]", search.batch, largest_batch));
  if (search.batch != 1 && !search.budget_us)
    refuse_recipe(recipe, "auto.batch", "is for budget_us alone; leave it out");
}

void check_candidates(const Recipe& recipe, const AutoRecipe& search) {
  if (!recipe.prune && !search.sparsities.empty())
    refuse_recipe(recipe, "auto.sparsities", "is set, but there is no [prune]");
  if (!recipe.quantize && !search.weight_bits.empty())
    refuse_recipe(recipe, "auto.weight_bits", "is set, but there is no [quantize]");
  const auto* n_of_m = recipe.prune ? std::get_if<NOfMPattern>(&recipe.prune->pattern) : nullptr;
  for (const double sparsity : search.sparsities) {
    if (!(sparsity >= 0 && sparsity < 1))
      refuse_recipe(recipe, "auto.sparsities", fmt::format("holds {}, must lie in [0, 1)", sparsity));
    if (n_of_m != nullptr && sparsity != 0 && std::abs(sparsity - sparsity_of(*n_of_m)) >= 1e-6)
      refuse_recipe(recipe, "auto.sparsities",
                    fmt::format("holds {}, but under the pattern {} a layer has 0 or {}; leave the list out", sparsity,
                                name_of(*n_of_m), sparsity_of(*n_of_m)));
  }
  for (const int bits : search.weight_bits)
    if (bits < 2 || bits > 8)
      refuse_recipe(recipe, "auto.weight_bits", fmt::format("holds {}, must lie in [2, 8]", bits));
}

}  // namespace

std::vector<double> searched_sparsities(const Recipe& recipe) {
  if (!recipe.prune) return {0.0};
  if (recipe.automatic && !recipe.automatic->sparsities.empty()) return recipe.automatic->sparsities;
  if (const auto* n_of_m = std::get_if<NOfMPattern>(&recipe.prune->pattern)) return {0.0, sparsity_of(*n_of_m)};
  return {0.0, 0.5, 0.7, 0.8, 0.9, 0.95};
}

std::vector<int> searched_bits(const Recipe& recipe) {
  if (!recipe.quantize) return {32};
  if (recipe.automatic && !recipe.automatic->weight_bits.empty()) return recipe.automatic->weight_bits;
  return {8, 6, 4, 3};
}

void check_auto(const Recipe& recipe) {
  if (!recipe.automatic) return;
  if (!recipe.prune && !recipe.quantize)
    refuse_recipe(recipe, "auto", "needs a [prune], a [quantize] or both, of which it searches sparsities and bits");
  if (recipe.prune && std::holds_alternative<ChannelPattern>(recipe.prune->pattern))
    refuse_recipe(recipe, "prune.pattern",
                  "is channels, which tie layers, but [auto] searches each by itself; use another pattern");
  check_budget(recipe, *recipe.automatic);
  check_candidates(recipe, *recipe.automatic);
  if (recipe.prune) {
    if (recipe.prune->sparsity != 0) refuse_recipe(recipe, "prune.sparsity", std::string(is_searched));
    if (recipe.prune->distribution != Distribution::uniform)
      refuse_recipe(recipe, "prune.distribution", std::string(is_searched));
    if (std::holds_alternative<DeviationThreshold>(recipe.prune->criterion))
      refuse_recipe(recipe, "prune.criterion",
                    "is threshold, which has no target sparsity that [auto] could set; use another");
  }
  if (recipe.quantize && recipe.quantize->weight_bits != QuantizeRecipe{}.weight_bits)
    refuse_recipe(recipe, "quantize.weight_bits", std::string(is_searched));
}

std::string toml_of(const AutoRecipe& search) {
  std::string text = "\n[auto]\n";
  if (search.budget_bytes) text += fmt::format("budget_bytes = {}\n", *search.budget_bytes);
  if (search.budget_us) text += fmt::format("budget_us = {}\n", *search.budget_us);
  text += fmt::format("batch = {}\n", search.batch);
  if (!search.sparsities.empty()) text += fmt::format("sparsities = [{}]\n", fmt::join(search.sparsities, ", "));
  if (!search.weight_bits.empty()) text += fmt::format("weight_bits = [{}]\n", fmt::join(search.weight_bits, ", "));
  return text;
}

}  // namespace podaq::compress_detail
