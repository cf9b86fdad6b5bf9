#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "compress/refusals.h"
#include "podaq/compress/recipe.h"
#include "podaq/core/error.h"

namespace podaq::test {
namespace {

constexpr std::string_view recipe_text = R"(
[epochs]
prune = 1
quantize = 1

[prune]
pattern = "4x1"

[quantize]

[auto]
budget_bytes = 20000
sparsities = [0, 0.5, 0.9]
weight_bits = [8, 4]
)";

std::string recipe_refusal(const std::function<void(Recipe&)>& change) {
  Recipe recipe = Recipe::parse(recipe_text, "recipe.toml");
  change(recipe);
  return refusal_of(ErrorCode::recipe, [&] { validate(recipe); });
}

void expect_refusal(const std::string& expected, const std::function<void(Recipe&)>& change) {
  const std::string refusal = recipe_refusal(change);
  EXPECT_NE(refusal.find(expected), std::string::npos) << "'" << refusal << "' instead of '" << expected << "'";
}

std::string refusal_of_text(const std::string& section) {
  return refusal_of([&] { (void)Recipe::parse("[epochs]\nprune = 1\n[prune]\n" + section, "recipe.toml"); });
}

TEST(AutoRecipe, IsReadAndWrittenBack) {
  const Recipe recipe = Recipe::parse(recipe_text);
  ASSERT_TRUE(recipe.automatic.has_value());
  EXPECT_EQ(recipe.automatic->budget_bytes, 20000);
  EXPECT_FALSE(recipe.automatic->budget_us.has_value());
  EXPECT_EQ(recipe.automatic->sparsities, (std::vector<double>{0, 0.5, 0.9}));
  EXPECT_EQ(recipe.automatic->weight_bits, (std::vector<int>{8, 4}));
  EXPECT_EQ(to_toml(Recipe::parse(to_toml(recipe))), to_toml(recipe));

  Recipe timed = recipe;
  timed.automatic = AutoRecipe{.budget_us = 12.5, .batch = 16};
  const Recipe again = Recipe::parse(to_toml(timed));
  EXPECT_EQ(again.automatic->budget_us, 12.5);
  EXPECT_EQ(again.automatic->batch, 16);
  EXPECT_FALSE(again.automatic->budget_bytes.has_value());
  EXPECT_TRUE(again.automatic->sparsities.empty());
  EXPECT_NE(recipe_hash(timed), recipe_hash(recipe));
}

TEST(AutoRecipe, NeedsExactlyOneBudgetWithinItsRange) {
  expect_refusal("auto has no budget", [](Recipe& recipe) { recipe.automatic->budget_bytes.reset(); });
  expect_refusal("auto has both", [](Recipe& recipe) { recipe.automatic->budget_us = 5; });
  expect_refusal("auto.budget_bytes is 0, must lie in [1, 1099511627776]",
                 [](Recipe& recipe) { recipe.automatic->budget_bytes = 0; });
  for (const double us : {0.0, -1.0, std::numeric_limits<double>::infinity(), std::nan("")})
    expect_refusal("auto.budget_us is", [&](Recipe& recipe) { recipe.automatic = AutoRecipe{.budget_us = us}; });
  expect_refusal("auto.batch is 0, must lie in [1, 65536]",
                 [](Recipe& recipe) { recipe.automatic = AutoRecipe{.budget_us = 1, .batch = 0}; });
  expect_refusal("auto.batch is for budget_us", [](Recipe& recipe) { recipe.automatic->batch = 2; });
}

TEST(AutoRecipe, CandidatesLieInTheirRanges) {
  expect_refusal("auto.sparsities holds 1, must lie in [0, 1)", [](Recipe& recipe) {
    recipe.automatic->sparsities = {0.5, 1};
  });
  expect_refusal("auto.sparsities holds -0.1", [](Recipe& recipe) { recipe.automatic->sparsities = {-0.1}; });
  expect_refusal("auto.weight_bits holds 9, must lie in [2, 8]",
                 [](Recipe& recipe) { recipe.automatic->weight_bits = {9}; });
  expect_refusal("under the pattern 2:4 a layer has 0 or 0.5", [](Recipe& recipe) {
    recipe.prune->pattern = NOfMPattern{.n = 2, .m = 4};
    recipe.automatic->sparsities = {0, 0.5, 0.9};
  });
  EXPECT_EQ(recipe_refusal([](Recipe& recipe) {
              recipe.prune->pattern = NOfMPattern{.n = 2, .m = 4};
              recipe.automatic->sparsities = {0, 0.5};
            }),
            "");
}

TEST(AutoRecipe, RefusesWhatItSearchesItselfAndWhatItCannotSearch) {
  expect_refusal("prune.sparsity is searched for", [](Recipe& recipe) { recipe.prune->sparsity = 0.9; });
  expect_refusal("prune.distribution is searched for",
                 [](Recipe& recipe) { recipe.prune->distribution = Distribution::erk; });
  expect_refusal("prune.criterion is threshold", [](Recipe& recipe) {
    recipe.prune->pattern = UnstructuredPattern{};
    recipe.prune->criterion = DeviationThreshold{};
  });
  expect_refusal("quantize.weight_bits is searched for", [](Recipe& recipe) { recipe.quantize->weight_bits = 4; });
  expect_refusal("auto.sparsities is set, but there is no [prune]", [](Recipe& recipe) {
    recipe.prune.reset();
    recipe.epochs.prune = 0;
  });
  const auto without_quantize = [](Recipe& recipe) {
    recipe.quantize.reset();
    recipe.epochs.quantize = 0;
  };
  expect_refusal("auto.weight_bits is set, but there is no [quantize]", without_quantize);
  expect_refusal("auto.budget_us needs a [quantize]", [&](Recipe& recipe) {
    without_quantize(recipe);
    recipe.automatic = AutoRecipe{.budget_us = 1};
  });
  expect_refusal("auto needs a [prune], a [quantize] or both", [&](Recipe& recipe) {
    recipe = {.epochs = {.dense = 1}, .automatic = AutoRecipe{.budget_bytes = 1}};
  });
}

TEST(AutoRecipe, ErrorsInTextNameTheLine) {
  EXPECT_NE(refusal_of_text("[auto]\nbudget_bytes = 0\n").find("recipe.toml:5: auto.budget_bytes"), std::string::npos)
      << refusal_of_text("[auto]\nbudget_bytes = 0\n");
  EXPECT_NE(refusal_of_text("[auto]\nbudget = 1\n").find("auto.budget is unknown"), std::string::npos);
  EXPECT_NE(refusal_of_text("[auto]\nbudget_bytes = 9\nsparsities = 0.5\n").find("must be a list of numbers"),
            std::string::npos);
  EXPECT_NE(refusal_of_text("[auto]\nbudget_bytes = 9\nsparsities = []\n").find("must be a list of numbers"),
            std::string::npos);
  EXPECT_NE(refusal_of_text("[auto]\nbudget_bytes = 9\nsparsities = [\"a\"]\n").find("must be a number"),
            std::string::npos);
}

}  // namespace
}  // namespace podaq::test
