#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "podaq/compress/recipe.h"
#include "podaq/compress/sensitivity.h"
#include "podaq/training/graph_module.h"

namespace podaq {

/// What `resolve_auto` found.
struct AutoResolution {
  Recipe recipe = {};                    ///< Ordinary: sparsities and bits by layer in place of [auto].
  SensitivityReport sensitivity = {};    ///< What it was chosen from.
  std::vector<std::size_t> chosen = {};  ///< For each layer of the report, the index of its candidate.
  double loss_rise = 0;                  ///< Predicted: the chosen candidates' sum.
  /// What the budget counts, of the whole network compressed so without training: bytes of its file, or microseconds
  /// of a sample by the cost model.
  double cost = 0;
};

/// Turns a recipe with an [auto] into an ordinary one: measures sensitivities (measure_sensitivity), then chooses for
/// each layer the sparsity and weight bits with which the network meets the budget at the least sum of loss rises
/// (choose_options). The predicted loss takes layers as independent and knows nothing of the training to come, which
/// recovers most of it.
///
/// The budget is met by the network as it is, pruned by magnitude and rounded: its whole file is written, or its
/// latency estimated with the kernels chosen for the whole, and the search repeated where the layers' sum was off.
/// Training moves weights, and so the file's size, by a few percent. Nodes without an estimate add nothing to a
/// latency.
///
///     auto resolution = podaq::resolve_auto(podaq::Recipe::load("recipe.toml"), *model, validation_loss);
///     std::cout << to_text(resolution);
///     podaq::Compressor compressor(model, resolution.recipe);
///
/// Throws as measure_sensitivity does; Error(recipe) for a recipe without [auto], one that leaves it nothing to search,
/// and a budget that cannot be met, naming the least that can.
[[nodiscard]] AutoResolution resolve_auto(const Recipe& recipe, const GraphModule& model,
                                          const ValidationFunction& validation, const SensitivityOptions& options = {});

/// The choice and the curves as tables for people.
[[nodiscard]] std::string to_text(const AutoResolution& resolution);

}  // namespace podaq
