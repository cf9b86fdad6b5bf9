#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "podaq/prune/masks.h"
#include "podaq/prune/pattern.h"
#include "podaq/training/graph_module.h"

namespace podaq {

/// |w|; a block's score is the sum.
struct MagnitudeL1 {};

/// w^2; a block's score is the sum, which orders blocks as their L2 norms do.
struct MagnitudeL2 {};

/// First-order Taylor: |w * gradient|, summed over the steps of the prune stage, each taken after the optimizer's step;
/// a block's score is the sum. Source: Molchanov et al., arXiv 1906.10771, (8), without the square.
struct Taylor {};

/// -w * gradient, summed over the steps of the prune stage, each taken after the optimizer's step: weights that move
/// away from zero stay; a block's score is the sum. Source: Sanh et al., arXiv 2005.07683, §4.
struct Movement {};

/// A unit's squared L2 norm divided by the sum of those of all units of its layer that are no smaller, which makes
/// layers comparable under Distribution::global; 0 / 0 counts as 0. Source: Lee et al., arXiv 2010.07611, §2.
struct Lamp {};

/// The sum of an output channel's L2 distances to the layer's other unpruned channels: those nearest to all others go
/// first. ChannelPattern only. Source: He et al., arXiv 1811.00250, §3.3 (FPGM).
struct GeometricMedian {};

/// |weight| of the batch norm behind the layer, for each output channel. ChannelPattern only. Source: Liu et al.,
/// arXiv 1708.06519 (network slimming).
struct BatchNormScale {};

/// A number for each unit from the counter-based generator (see CounterRandom): a pure function of the seed, the layer
/// and the unit.
struct RandomScore {
  std::uint64_t seed = 1;  ///< The same for all layers.
};

/// No score and no target: weights with |w| <= alpha * (population standard deviation of the layer's weights, zeros
/// included) are masked. Masks are computed anew at each update, so that a weight may come back until the prune stage
/// ends; the largest weight always stays. The schedule ramps alpha up, from 0. UnstructuredPattern only.
struct DeviationThreshold {
  double alpha = 1;  ///< In (0, 10].
};

/// A score for each weight of a layer: a floating-point tensor of the weight's shape; the lowest are pruned.
/// @param gradient  of the last batch; undefined where there is none.
using ScoreFunction = std::function<torch::Tensor(const WeightedLayer& layer, const torch::Tensor& weight,
                                                  const torch::Tensor& gradient)>;

/// The user's own criterion. Must be a pure function of its arguments for runs to repeat and resume.
struct CustomScore {
  std::string name;     ///< Distinguishes recipes (and their checkpoints) with different functions.
  ScoreFunction score;  ///< Not empty.
};

/// What is pruned first: each gives every unit (see Pattern) of a layer a score, and the lowest scores go.
using Criterion = std::variant<MagnitudeL1, MagnitudeL2, Taylor, Movement, Lamp, GeometricMedian, BatchNormScale,
                               RandomScore, DeviationThreshold, CustomScore>;

/// The criterion as recipes spell it: "magnitude_l1", "taylor", …
[[nodiscard]] std::string_view name_of(const Criterion& criterion);

/// The criterion of that name with its default numbers; none for other text and for "custom".
[[nodiscard]] std::optional<Criterion> parse_criterion(std::string_view name);

/// Whether the criterion sums something up over steps (see GatheredScores).
[[nodiscard]] bool gathers(const Criterion& criterion);

/// Why the criterion has no use for the pattern, or which of its own fields is at fault; empty where all is well.
[[nodiscard]] std::string problem_with(const Criterion& criterion, const Pattern& pattern);

/// Why the criterion cannot score that layer, by name; empty where it can.
[[nodiscard]] std::string problem_with(const Criterion& criterion, const GraphModule& model,
                                       const WeightedLayer& layer);

/// What a layer's scores are computed from, besides its weight.
struct ScoreSources {
  torch::Tensor gathered;      ///< What the criterion has summed up, of the weight's shape; where it gathers.
  torch::Tensor pruned_units;  ///< bool [units]; undefined where none are.
};

/// The units' scores: a row of floating-point numbers, possibly NaN or infinite. Not for DeviationThreshold. Throws
/// Error(invalid_argument) naming the layer where a custom function gives no tensor of the weight's shape.
[[nodiscard]] torch::Tensor score_units(const Criterion& criterion, const Pattern& pattern, const GraphModule& model,
                                        const WeightedLayer& layer, const ScoreSources& sources);

/// alpha * (population standard deviation of the finite weights, zeros included); 0 for no weights.
[[nodiscard]] double deviation_threshold(const torch::Tensor& weight, double alpha);

/// Which weights a threshold masks: bool of the weight's shape, true where |w| <= threshold, save for the largest
/// weight. NaN and infinities stay, and a threshold of 0 masks nothing.
[[nodiscard]] torch::Tensor threshold_mask(const torch::Tensor& weight, double threshold);

}  // namespace podaq
