#include "podaq/compress/resolve_auto.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "compress/candidate_costs.h"
#include "compress/measure_sensitivity.h"
#include "compress/refuse_recipe.h"
#include "compress/trial_network.h"
#include "podaq/compress/auto_search.h"
#include "podaq/core/cancellation.h"
#include "podaq/core/error.h"

namespace podaq {
namespace {

using namespace compress_detail;

std::vector<std::vector<SearchOption>> options_of(const SensitivityReport& report, const AutoRecipe& search) {
  std::vector<std::vector<SearchOption>> layers;
  for (const LayerSensitivity& layer : report.layers) {
    std::vector<SearchOption>& options = layers.emplace_back();
    for (const CandidateEffect& effect : layer.candidates)
      options.push_back({.cost = search.budget_us ? effect.us.value() : effect.bytes, .loss = effect.loss_rise});
  }
  return layers;
}

// A sum over layers cannot be finite if one has no finite number.
void require_finite(const SensitivityReport& report) {
  for (const LayerSensitivity& layer : report.layers)
    if (std::ranges::none_of(layer.candidates,
                             [](const CandidateEffect& each) { return std::isfinite(each.loss_rise); }))
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("resolve_auto: the validation function gives no finite number for any candidate of layer "
                              "'{}'; add milder ones to auto.sparsities and auto.weight_bits",
                              layer.layer));
}

std::vector<LayerCandidate> candidates_of(const SensitivityReport& report, const std::vector<std::size_t>& chosen) {
  std::vector<LayerCandidate> candidates;
  for (std::size_t i = 0; i < chosen.size(); ++i)
    candidates.push_back(report.layers[i].candidates[chosen[i]].candidate);
  return candidates;
}

struct Found {
  SearchResult search;
  double cost = 0;  // of the whole network
};

// What the layers' costs leave out (the graph, layers that are not searched) and where they err is known only of a
// whole network. Each round takes over what the last one's showed; the best that met the budget counts.
Found search_within(double budget, const std::vector<std::vector<SearchOption>>& options,
                    const std::function<double(const std::vector<std::size_t>&)>& cost_of_network,
                    const std::function<void(double)>& refuse_budget) {
  constexpr int most_rounds = 10;
  const SearchResult cheapest = cheapest_options(options);
  Found best{.search = cheapest, .cost = cost_of_network(cheapest.chosen)};
  if (best.cost > budget) refuse_budget(best.cost);
  double rest = best.cost - cheapest.cost;
  for (int round = 0; round < most_rounds && cheapest.cost <= budget - rest; ++round) {
    throw_if_cancelled();
    SearchResult next = choose_options(options, budget - rest);
    if (next.chosen == best.search.chosen) break;
    const double cost = cost_of_network(next.chosen);
    const double real_rest = cost - next.cost;
    const bool fits = cost <= budget;
    if (fits && next.loss < best.search.loss) best = {.search = std::move(next), .cost = cost};
    if (fits && real_rest >= rest) break;  // more would not fit
    rest = real_rest;
  }
  return best;
}

}  // namespace

AutoResolution resolve_auto(const Recipe& recipe, const GraphModule& model, const ValidationFunction& validation,
                            const SensitivityOptions& options) {
  podaq::validate(recipe);
  if (!recipe.automatic) refuse_recipe(recipe, "auto", "is missing, so that there is nothing to resolve");
  const AutoRecipe& search = *recipe.automatic;
  TrialNetwork trial(model, recipe);
  if (trial.layers().empty())
    refuse_recipe(recipe, "auto",
                  "has nothing to search: prune.layers and quantize.layers choose no layer, or prune.by_layer and "
                  "quantize.weight_bits_by_layer fix all of them");

  AutoResolution resolution{.sensitivity = measure_sensitivity(trial, recipe, validation, options)};
  require_finite(resolution.sensitivity);
  const Found found = search_within(
      search.budget_us ? *search.budget_us : static_cast<double>(*search.budget_bytes),
      options_of(resolution.sensitivity, search),
      [&](const std::vector<std::size_t>& chosen) {
        return cost_of(trial.converted(candidates_of(resolution.sensitivity, chosen)), search);
      },
      [&](double least) {
        if (search.budget_us)
          refuse_recipe(recipe, "auto.budget_us",
                        fmt::format("is {}; the least that the candidates reach is {:.3f}", *search.budget_us, least));
        refuse_recipe(recipe, "auto.budget_bytes",
                      fmt::format("is {}; the least that the candidates reach is {:.0f}", *search.budget_bytes, least));
      });
  resolution.recipe =
      with_candidates(recipe, trial.layers(), candidates_of(resolution.sensitivity, found.search.chosen));
  resolution.chosen = found.search.chosen;
  resolution.loss_rise = found.search.loss;
  resolution.cost = found.cost;
  return resolution;
}

}  // namespace podaq
