#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compress/candidates.h"
#include "podaq/compress/recipe.h"
#include "podaq/compress/sensitivity.h"
#include "podaq/graph/graph.h"
#include "podaq/prune/masks.h"
#include "podaq/prune/rewinding.h"
#include "podaq/quantize/network_quantizer.h"
#include "podaq/training/graph_module.h"

namespace podaq::compress_detail {

/// A copy of a network on which a recipe's candidates are tried. Between calls it computes what the network does,
/// whatever a validation function did to it.
class TrialNetwork {
 public:
  /// Throws Error(recipe) as searched_layers does.
  TrialNetwork(const GraphModule& model, Recipe recipe);

  /// The layers that the recipe searches.
  [[nodiscard]] const std::vector<SearchedLayer>& layers() const { return layers_; }

  /// The copy.
  [[nodiscard]] const GraphModule& model() const { return *model_; }

  /// The candidate for each layer, but for what the recipe itself says of it.
  [[nodiscard]] std::vector<LayerCandidate> all_alike(const LayerCandidate& candidate) const;

  /// What the validation function gives for the network as it is. Observes activation ranges, so it comes before the
  /// functions below where the recipe quantizes.
  [[nodiscard]] double baseline(const ValidationFunction& validation);

  /// What it gives where one of the layers is pruned and rounded as the candidate says, all else as it is.
  [[nodiscard]] double loss_with(const SearchedLayer& searched, const LayerCandidate& candidate,
                                 const ValidationFunction& validation);

  /// The file's graph where every layer is as its candidate says, one for each of `layers`, without training.
  [[nodiscard]] Graph converted(std::span<const LayerCandidate> chosen);

 private:
  [[nodiscard]] double call(const ValidationFunction& validation);
  [[nodiscard]] Masks masks_of(const Recipe& trial);
  [[nodiscard]] NetworkQuantizer quantizer_of(const Recipe& trial) const;
  [[nodiscard]] const Masks& masks_at(double sparsity);
  [[nodiscard]] const NetworkQuantizer& quantizer_at(int weight_bits);

  std::shared_ptr<GraphModule> model_;
  Recipe recipe_;
  NetworkSnapshot snapshot_;
  std::vector<SearchedLayer> layers_;
  QuantizerState observed_;
  std::map<double, Masks> masks_;               // by sparsity, all layers alike
  std::map<int, NetworkQuantizer> quantizers_;  // by weight bits, likewise
};

}  // namespace podaq::compress_detail
