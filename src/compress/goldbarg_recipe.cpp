#include "compress/goldbarg_recipe.h"

#include <fmt/format.h>

#include "compress/recipe_checker.h"
#include "compress/recipe_words.h"
#include "compress/refuse_recipe.h"
#include "compress/toml_text.h"

namespace podaq::compress_detail {
namespace {

// It does by itself what other tables do, so that the two together would mean neither.
void require_alone(const Recipe& recipe) {
  const std::string problem = "does not go with [goldbarg], which prunes and quantizes by itself; leave one out";
  if (recipe.prune) refuse_recipe(recipe, "prune", problem);
  if (recipe.quantize) refuse_recipe(recipe, "quantize", problem);
  if (recipe.automatic) refuse_recipe(recipe, "auto", problem);
  if (recipe.average)
    refuse_recipe(recipe, "average",
                  "does not go with [goldbarg], whose thresholds are of the last weights; leave "
                  "one out");
  if (recipe.epochs.freeze_batch_norm > 0)
    refuse_recipe(recipe, "epochs.freeze_batch_norm", "does not go with [goldbarg]; leave it out");
}

}  // namespace

void check_goldbarg(const Recipe& recipe) {
  if (!recipe.goldbarg) {
    if (recipe.epochs.goldbarg > 0) refuse_recipe(recipe, "epochs.goldbarg", "is set, but there is no [goldbarg]");
    return;
  }
  const GoldbargRecipe& goldbarg = *recipe.goldbarg;
  require_alone(recipe);
  if (recipe.epochs.goldbarg == 0) refuse_recipe(recipe, "epochs.goldbarg", "is 0, but there is a [goldbarg]");
  const RecipeChecker checker(recipe);
  checker.require_range(goldbarg.alpha, 0, 10, "goldbarg.alpha");
  if (goldbarg.bits) checker.require_range(*goldbarg.bits, 2, 16, "goldbarg.bits");
  if (goldbarg.alpha == 0 && !goldbarg.bits)
    refuse_recipe(recipe, "goldbarg", "neither prunes nor quantizes: give it an alpha above 0, bits, or both");
  if (goldbarg.layers.empty()) refuse_recipe(recipe, "goldbarg.layers", "is empty; name layers (\"*\" for all)");
  checker.require_globs(goldbarg.layers, "goldbarg.layers");
}

std::string toml_of(const GoldbargRecipe& goldbarg) {
  std::string text = fmt::format("\n[goldbarg]\nalpha = {}\n", goldbarg.alpha);
  if (goldbarg.bits) text += fmt::format("bits = {}\n", *goldbarg.bits);
  text +=
      fmt::format("codes = \"{}\"\nbiases = {}\nrestart_from_quantized = {}\nlayers = {}\n", word_of(goldbarg.codes),
                  goldbarg.biases, goldbarg.restart_from_quantized, list_of(goldbarg.layers));
  return text;
}

}  // namespace podaq::compress_detail
