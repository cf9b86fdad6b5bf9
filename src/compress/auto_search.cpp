#include "podaq/compress/auto_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "podaq/core/error.h"

namespace podaq {
namespace {

constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

SearchResult sum_of(std::span<const std::vector<SearchOption>> layers, std::vector<std::size_t> chosen) {
  SearchResult result{.chosen = std::move(chosen)};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    result.cost += layers[i][result.chosen[i]].cost;
    result.loss += layers[i][result.chosen[i]].loss;
  }
  return result;
}

// Whether a pair of loss and cost is better than another.
bool is_better(double loss, double cost, double than_loss, double than_cost) {
  return loss < than_loss || (loss == than_loss && cost < than_cost);
}

// The best selection of the layers so far whose rounded extra costs make up exactly a number of parts.
struct Partial {
  double loss = std::numeric_limits<double>::infinity();
  double cost = std::numeric_limits<double>::infinity();
};

}  // namespace

SearchResult cheapest_options(std::span<const std::vector<SearchOption>> layers) {
  std::vector<std::size_t> chosen;
  for (const std::vector<SearchOption>& options : layers) {
    std::size_t cheapest = none;
    for (std::size_t i = 0; i < options.size(); ++i) {
      if (!(options[i].cost >= 0.0 && std::isfinite(options[i].cost)))
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("search: option {} of layer {} costs {}, must be finite and at least 0", i,
                                chosen.size(), options[i].cost));
      if (!std::isfinite(options[i].loss)) continue;
      if (cheapest == none ||
          is_better(options[i].cost, options[i].loss, options[cheapest].cost, options[cheapest].loss))
        cheapest = i;
    }
    if (cheapest == none)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("search: no option of layer {} has a finite loss", chosen.size()));
    chosen.push_back(cheapest);
  }
  return sum_of(layers, std::move(chosen));
}

SearchResult choose_options(std::span<const std::vector<SearchOption>> layers, double budget, std::size_t steps) {
  constexpr std::size_t most_steps = 100'000;
  if (steps < 1 || steps > most_steps)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("search: steps is {}, must lie in [1, {}]", steps, most_steps));
  SearchResult cheapest = cheapest_options(layers);
  if (!(cheapest.cost <= budget))
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("search: the budget is {}, but the least that can be reached is {}", budget, cheapest.cost));
  const double part = (budget - cheapest.cost) / static_cast<double>(steps);
  // Parts that an option takes beyond the cheapest; more than `steps` where it cannot be had.
  const auto parts_of = [&](std::size_t layer, const SearchOption& option) {
    const double extra = option.cost - layers[layer][cheapest.chosen[layer]].cost;
    if (extra <= 0.0) return std::size_t{0};
    if (!std::isfinite(option.loss) || !(extra <= budget - cheapest.cost)) return steps + 1;
    return std::min(static_cast<std::size_t>(std::ceil(extra / part)), steps);
  };

  std::vector<Partial> best(steps + 1);
  best[0] = {.loss = 0.0, .cost = 0.0};
  std::vector<std::vector<std::size_t>> choices;  // by layer and parts taken up to it
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    std::vector<Partial> next(steps + 1);
    std::vector<std::size_t>& choice = choices.emplace_back(steps + 1, none);
    for (std::size_t i = 0; i < layers[layer].size(); ++i) {
      const SearchOption& option = layers[layer][i];
      if (!std::isfinite(option.loss)) continue;
      const std::size_t parts = parts_of(layer, option);
      for (std::size_t taken = parts; taken <= steps; ++taken) {
        const Partial& before = best[taken - parts];
        const double loss = before.loss + option.loss;
        const double cost = before.cost + option.cost;
        if (!is_better(loss, cost, next[taken].loss, next[taken].cost)) continue;
        next[taken] = {.loss = loss, .cost = cost};
        choice[taken] = i;
      }
    }
    best = std::move(next);
  }

  std::size_t taken = 0;
  for (std::size_t parts = 1; parts <= steps; ++parts)
    if (is_better(best[parts].loss, best[parts].cost, best[taken].loss, best[taken].cost)) taken = parts;
  std::vector<std::size_t> chosen(layers.size());
  for (std::size_t layer = layers.size(); layer-- > 0;) {
    chosen[layer] = choices[layer][taken];
    taken -= parts_of(layer, layers[layer][chosen[layer]]);
  }
  return sum_of(layers, std::move(chosen));
}

}  // namespace podaq
