#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "podaq/compress/recipe.h"
#include "podaq/core/progress.h"
#include "podaq/training/graph_module.h"

namespace podaq {

/// How bad a network is on data that it is not trained on, for instance its loss; lower is better. Called with a copy
/// of the network in eval mode; must be deterministic and is best without gradients.
using ValidationFunction = std::function<double(GraphModule& network)>;

/// One way to compress a layer.
struct LayerCandidate {
  double sparsity = 0;   ///< Share of its units (see Pattern) that are pruned, in [0, 1).
  int weight_bits = 32;  ///< 2 to 8; 32: float.

  friend bool operator==(const LayerCandidate&, const LayerCandidate&) = default;
};

/// What a candidate costs and does.
struct CandidateEffect {
  LayerCandidate candidate = {};  ///< What was tried.
  /// What the validation function gives where this layer alone is pruned and its weights rounded, less what it gives
  /// for the network as it is. Below 0 where the network got better; NaN or infinite where it broke.
  double loss_rise = 0;
  double bytes = 0;  ///< In a file, about (estimate_stored_bytes), while all layers are treated alike.
  std::optional<double> us =
      {};  ///< Microseconds of a sample by the cost model, likewise; where the recipe has budget_us.
};

/// The curves of one layer.
struct LayerSensitivity {
  std::string layer = {};                        ///< The conv or linear layer.
  std::int64_t weights = 0;                      ///< How many it has.
  std::vector<CandidateEffect> candidates = {};  ///< Sparsities times bits, in the recipe's order.
};

/// How a network bears compression, layer by layer.
struct SensitivityReport {
  double baseline = 0;                        ///< What the validation function gives for the network as it is.
  std::vector<LayerSensitivity> layers = {};  ///< Those that the recipe searches, in execution order.
};

/// The report as a table for people.
[[nodiscard]] std::string to_text(const SensitivityReport& report);

/// How sensitivities are measured.
struct SensitivityOptions {
  /// A JSON file that every measurement is added to at once, and that measurements of the same network and recipe are
  /// taken from, so that a run that was stopped goes on. Empty: none.
  std::filesystem::path file = {};
  ProgressOptions progress = {};  ///< Where progress is shown.
};

/// Measures, for each layer that the recipe's [auto] searches (without one, each that it prunes or quantizes) and each
/// candidate, how much worse the network gets by it: the layer's weights are pruned by magnitude (L1), in the recipe's
/// pattern, and rounded as the recipe's quantizer would. Activations stay float. Works on a copy: the network is left
/// as it is. The validation function is called once for the network as it is, which also observes activation ranges,
/// then once for each candidate that the file does not hold yet.
///
/// Throws Error(recipe) as validate does and for globs that match nothing; Error(invalid_argument) where the validation
/// function is empty, does not run the network or gives no finite number for it as it is, and for a file of another
/// network, recipe or validation function; Error(format) for a file that holds something else; Error(io) where it
/// cannot be written; Error(unsupported) under budget_us where the cost model does not know a layer's kernel;
/// Error(cancelled) where the user asks to stop within a CancellationScope.
[[nodiscard]] SensitivityReport measure_sensitivity(const GraphModule& model, const Recipe& recipe,
                                                    const ValidationFunction& validation,
                                                    const SensitivityOptions& options = {});

}  // namespace podaq
