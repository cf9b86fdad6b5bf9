#pragma once

#include <string>
#include <vector>

#include "podaq/compress/recipe.h"

// The [auto] of a recipe.
namespace podaq::compress_detail {

/// The sparsities that layers of [prune] may get: the recipe's [auto]'s, or what stands in their place; 0 alone without
/// [prune].
[[nodiscard]] std::vector<double> searched_sparsities(const Recipe& recipe);

/// The weight bits that layers of [quantize] may get, likewise; 32 (float) alone without [quantize].
[[nodiscard]] std::vector<int> searched_bits(const Recipe& recipe);

/// Throws Error(recipe) naming the first field of [auto] outside its range, or that does not go with it. Does nothing
/// without [auto].
void check_auto(const Recipe& recipe);

/// [auto] as TOML.
[[nodiscard]] std::string toml_of(const AutoRecipe& search);

}  // namespace podaq::compress_detail
