#pragma once

#include <fmt/format.h>

#include <string>

#include "podaq/compress/recipe.h"
#include "podaq/core/error.h"

namespace podaq::compress_detail {

/// Refuses a recipe's field, naming where it stands if the recipe was read from text.
[[noreturn]] inline void refuse_recipe(const Recipe& recipe, const std::string& field, const std::string& problem) {
  const auto origin = recipe.origins.find(field);
  const std::string where = origin == recipe.origins.end() ? "recipe" : origin->second;
  throw Error(ErrorCode::recipe, fmt::format("{}: {} {}", where, field, problem));
}

}  // namespace podaq::compress_detail
