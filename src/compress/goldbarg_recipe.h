#pragma once

#include <string>

#include "podaq/compress/recipe.h"

// The [goldbarg] of a recipe.
namespace podaq::compress_detail {

/// Throws Error(recipe) naming the first field of [goldbarg] outside its range, or what does not go with it. Without
/// [goldbarg], refuses its stage.
void check_goldbarg(const Recipe& recipe);

/// [goldbarg] as TOML.
[[nodiscard]] std::string toml_of(const GoldbargRecipe& goldbarg);

}  // namespace podaq::compress_detail
