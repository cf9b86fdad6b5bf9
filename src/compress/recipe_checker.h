#pragma once

#include <fmt/format.h>

#include <span>
#include <string>

#include "compress/refuse_recipe.h"

namespace podaq::compress_detail {

/// Refuses a field of a recipe that does not hold.
class RecipeChecker {
 public:
  explicit RecipeChecker(const Recipe& recipe) : recipe_(recipe) {}

  void require(bool holds, const std::string& field, const std::string& problem) const {
    if (!holds) refuse_recipe(recipe_, field, problem);
  }

  void require_range(double value, double lowest, double highest, const std::string& field) const {
    require(value >= lowest && value <= highest, field,
            fmt::format("is {}, must lie in [{}, {}]", value, lowest, highest));
  }

  void require_globs(std::span<const std::string> globs, const std::string& field) const {
    for (const std::string& glob : globs) require(!glob.empty(), field, "holds an empty name");
  }

 private:
  const Recipe& recipe_;
};

}  // namespace podaq::compress_detail
