#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "podaq/compress/recipe.h"
#include "podaq/core/error.h"

namespace podaq::compress_detail {

/// Refuses a recipe's field, naming where it stands if the recipe was read from text.
[[noreturn]] inline void refuse_recipe(const Recipe& recipe, const std::string& field, const std::string& problem) {
  const auto origin = recipe.origins.find(field);
  const std::string where = origin == recipe.origins.end() ? "recipe" : origin->second;
  throw Error(ErrorCode::recipe, fmt::format("{}: {} {}", where, field, problem));
}

/// Refuses a glob that matches nothing, naming what there is.
/// @param kind  "layer" or "value".
inline void require_match(const Recipe& recipe, const std::string& field, const std::string& glob, bool matches,
                          std::string_view kind, const std::string& names) {
  if (!matches)
    refuse_recipe(recipe, fmt::format("{}.\"{}\"", field, glob),
                  fmt::format("matches no {0}; the network's {0}s are: {1}", kind, names));
}

}  // namespace podaq::compress_detail
