#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "podaq/graph/graph.h"
#include "podaq/graph/steps.h"

namespace podaq {

/// Values that share one set of activation parameters: the inputs and output of a concat, and whatever max-pool or
/// reshape makes of them.
struct PlacedQuantizer {
  std::vector<ValueId> members;   ///< All values under these parameters.
  std::vector<ValueId> observed;  ///< Those that are observed and rounded; the others hold codes already.
  int bits = 8;                   ///< Of the codes, 4 to 8.
};

/// Where a network's quantizers stand, and which steps work on codes.
///
/// A conv or linear step works on codes if it was chosen. Any other step works on codes if a step that reads its output
/// does; softmax and batch norms of flat values that follow no linear never do. Every value that a step reads as
/// codes has a quantizer: at a network input, at the output of a float step, or as the last thing that a conv, linear,
/// add, mul, affine, clamp, mean or activation step does. Max-pool, reshape, dropout and concat keep their input's.
/// A value read as codes is rounded once: float readers, too, get the rounded numbers.
struct Placement {
  std::vector<bool> on_codes;                            ///< One per step.
  std::vector<std::optional<std::size_t>> quantizer_of;  ///< One per value: index into `quantizers`.
  std::vector<PlacedQuantizer> quantizers;               ///< In the order of the values they stand on.
};

/// Says whether a conv or linear node is to work on codes.
using LayerChoice = std::function<bool(const Node&)>;

/// Where a user wants the table otherwise. Both name inputs of the graph and outputs of steps.
struct PlacementOverrides {
  std::set<ValueId> stay_float;  ///< Never rounded: steps without weights that read one of them work on floats.
  std::set<ValueId> quantized;   ///< Rounded although no step reads them as codes; so are outputs of the network then.
};

/// Places the quantizers of a float graph with the given steps (see find_steps). Throws Error(invalid_argument), naming
/// the value, for an override of a value inside a step, of one that is to be both, and of one to stay float that a conv
/// or linear on codes reads.
[[nodiscard]] Placement place_quantizers(const Graph& graph, const std::vector<Step>& steps, const LayerChoice& choose,
                                         const PlacementOverrides& overrides = {});

/// The inputs of the graph and the outputs of its steps: the values that may have a quantizer.
[[nodiscard]] std::vector<ValueId> quantizable_values(const Graph& graph, const std::vector<Step>& steps);

/// The values that a step reads: its first node's inputs, then the residual of a fused add.
[[nodiscard]] std::vector<ValueId> values_read(const Graph& graph, const Step& step);

/// The placement as a table for people: a line per step with its operation, domain and the quantizers it reads and
/// writes, then a line per quantizer with its bits and the values under it, the observed ones marked.
[[nodiscard]] std::string to_text(const Placement& placement, const Graph& graph, const std::vector<Step>& steps);

}  // namespace podaq
