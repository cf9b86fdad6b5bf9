#include "podaq/compress/auto_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <string>

#include "compress/refusals.h"
#include "podaq/core/error.h"

namespace podaq::test {
namespace {

using Layers = std::vector<std::vector<SearchOption>>;

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Sums {
  double cost = 0;
  double loss = 0;
};

// The least loss of all selections within the budget, and the least cost that has it; none where nothing fits.
void search_all(const Layers& layers, std::size_t layer, Sums sums, double budget, std::optional<Sums>& best) {
  if (sums.cost > budget) return;
  if (layer == layers.size()) {
    if (!best || sums.loss < best->loss || (sums.loss == best->loss && sums.cost < best->cost)) best = sums;
    return;
  }
  for (const SearchOption& option : layers[layer])
    if (std::isfinite(option.loss))
      search_all(layers, layer + 1, {.cost = sums.cost + option.cost, .loss = sums.loss + option.loss}, budget, best);
}

std::optional<Sums> best_of_all(const Layers& layers, double budget) {
  std::optional<Sums> best;
  search_all(layers, 0, {}, budget, best);
  return best;
}

// Multiples of 1/4, so that sums are exact; some losses are infinite or not a number.
Layers random_layers(std::mt19937& engine, bool whole_costs) {
  const auto draw = [&](int lowest, int highest) {
    return std::uniform_int_distribution<int>(lowest, highest)(engine);
  };
  Layers layers(static_cast<std::size_t>(draw(1, 5)));
  for (auto& options : layers) {
    options.resize(static_cast<std::size_t>(draw(1, 5)));
    for (SearchOption& option : options) {
      option.cost = whole_costs ? draw(0, 12) : draw(0, 12'000) / 1000.0;
      option.loss = draw(-2, 20) / 4.0;
      if (draw(0, 9) == 0) option.loss = draw(0, 1) == 0 ? infinity : std::nan("");
    }
    options[0].loss = draw(0, 20) / 4.0;
  }
  return layers;
}

double summed(const Layers& layers, const SearchResult& result, double SearchOption::*member) {
  double sum = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) sum += layers[i].at(result.chosen.at(i)).*member;
  return sum;
}

std::string message_of(const Layers& layers, double budget, std::size_t steps = 100) {
  return refusal_of(ErrorCode::invalid_argument, [&] { (void)choose_options(layers, budget, steps); });
}

TEST(AutoSearch, FindsWhatTryingAllFindsWhereCostsAreWholeParts) {
  std::mt19937 engine(5);
  for (int round = 0; round < 400; ++round) {
    const Layers layers = random_layers(engine, true);
    const double least = cheapest_options(layers).cost;
    const double slack = std::uniform_int_distribution<int>(1, 30)(engine);
    const SearchResult result = choose_options(layers, least + slack, static_cast<std::size_t>(slack));
    const std::optional<Sums> best = best_of_all(layers, least + slack);
    ASSERT_TRUE(best.has_value());
    EXPECT_EQ(result.loss, best->loss) << "round " << round;
    EXPECT_EQ(result.cost, best->cost) << "round " << round;
    EXPECT_EQ(result.loss, summed(layers, result, &SearchOption::loss));
    EXPECT_EQ(result.cost, summed(layers, result, &SearchOption::cost));
  }
}

TEST(AutoSearch, StaysWithinTheBudgetAndLosesNoMoreThanAPartALayer) {
  std::mt19937 engine(6);
  constexpr std::size_t steps = 50;
  for (int round = 0; round < 400; ++round) {
    const Layers layers = random_layers(engine, false);
    const double least = cheapest_options(layers).cost;
    const double slack = std::uniform_real_distribution<double>(0, 20)(engine);
    const double budget = least + slack;
    const SearchResult result = choose_options(layers, budget, steps);
    EXPECT_LE(result.cost, budget * (1 + 1e-12)) << "round " << round;
    EXPECT_GE(result.loss, best_of_all(layers, budget * (1 + 1e-12))->loss) << "round " << round;
    const double certain = budget - static_cast<double>(layers.size()) * slack / steps;
    const std::optional<Sums> best = best_of_all(layers, certain);
    EXPECT_LE(result.loss, best ? best->loss : infinity) << "round " << round;
  }
}

TEST(AutoSearch, WithoutABoundEveryLayerGetsItsLeastLoss) {
  const Layers layers = {{{.cost = 9, .loss = 0.5}, {.cost = 1, .loss = 2}}, {{.cost = 4, .loss = 1}}};
  EXPECT_EQ(choose_options(layers, infinity).chosen, (std::vector<std::size_t>{0, 0}));
  EXPECT_EQ(choose_options(layers, 13).chosen, (std::vector<std::size_t>{0, 0}));
  EXPECT_EQ(choose_options(layers, 12.9).chosen, (std::vector<std::size_t>{1, 0}));
}

TEST(AutoSearch, ABudgetOfTheCheapestIsReached) {
  const Layers layers = {{{.cost = 0.1, .loss = 3}, {.cost = 0.7, .loss = 0}}, {{.cost = 0.2, .loss = 1}}};
  const SearchResult cheapest = cheapest_options(layers);
  EXPECT_EQ(choose_options(layers, cheapest.cost).chosen, cheapest.chosen);
}

TEST(AutoSearch, AnUnreachableBudgetIsRefusedWithTheLeastReachable) {
  const Layers layers = {{{.cost = 3, .loss = 1}, {.cost = 2.5, .loss = 2}}, {{.cost = 4, .loss = 1}}};
  EXPECT_NE(message_of(layers, 6).find("the least that can be reached is 6.5"), std::string::npos)
      << message_of(layers, 6);
  EXPECT_FALSE(message_of(layers, std::nan("")).empty());
}

TEST(AutoSearch, RefusesWhatItCannotCompute) {
  const Layers lossless = {{{.cost = 1, .loss = 0}}, {{.cost = 1, .loss = std::nan("")}}};
  EXPECT_NE(message_of(lossless, 10).find("layer 1"), std::string::npos) << message_of(lossless, 10);
  const Layers costless = {{{.cost = -1, .loss = 0}}};
  EXPECT_NE(message_of(costless, 10).find("layer 0 costs -1"), std::string::npos) << message_of(costless, 10);
  const Layers fine = {{{.cost = 1, .loss = 0}}};
  EXPECT_NE(message_of(fine, 10, 0).find("steps is 0"), std::string::npos);
  EXPECT_EQ(message_of({}, 10), "");
}

}  // namespace
}  // namespace podaq::test
