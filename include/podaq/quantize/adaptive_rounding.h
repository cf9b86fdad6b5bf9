#pragma once

#include <span>
#include <string>
#include <vector>

#include "podaq/quantize/calibrate.h"
#include "podaq/quantize/network_quantizer.h"
#include "podaq/training/graph_module.h"

namespace podaq {

/// How adaptive rounding searches.
struct AdaptiveRoundingOptions {
  int iterations = 1000;         ///< 1 to 1000000 steps of Adam per layer, each on one batch in turn.
  double learning_rate = 0.01;   ///< In (0, 1].
  double regularization = 0.01;  ///< Weight of what drives weights to one side or the other, in [0, 1000].
};

/// What a layer's output lost to rounding its weight: the mean over samples and places of the squared error, summed
/// over channels, after the layer's clamp if it has one.
struct RoundingReport {
  std::string layer;       ///< The conv or linear.
  double nearest = 0;      ///< With every weight rounded to the nearest code.
  double adaptive = 0;     ///< With the weights as adaptive rounding left them; never more.
  std::int64_t moved = 0;  ///< Weights that went to the other neighbour.
};

/// Rounds each layer's weights on codes up or down so that the layer's output, not each weight, is closest to the float
/// network's: AdaRound (Nagel et al., arXiv 2004.10568), layer by layer in execution order on the quantized network's
/// inputs. Weights move onto the numbers that their codes stand for, so that ordinary rounding keeps them there.
/// Weights that are exactly 0 stay so (others may become 0), and those at the ends of the codes stay there, so that
/// scales stay. A layer that does not gain is left alone. Writes to the network's own parameters and leaves its hooks
/// enabled. Draws on no random numbers. The quantizer must have observed (calibrate). Throws Error(invalid_argument)
/// naming an option outside its range.
std::vector<RoundingReport> round_adaptively(GraphModule& model, const NetworkQuantizer& quantizer,
                                             std::span<const CalibrationBatch> batches,
                                             const AdaptiveRoundingOptions& options = {});

}  // namespace podaq
