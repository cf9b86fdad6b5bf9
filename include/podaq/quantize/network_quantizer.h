#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "podaq/graph/channel_groups.h"
#include "podaq/quantize/learned_step.h"
#include "podaq/quantize/observer.h"
#include "podaq/quantize/placement.h"
#include "podaq/quantize/weight_scales.h"
#include "podaq/training/graph_module.h"

namespace podaq {

/// How a network is fake-quantized. Activation bits stand in the placement.
struct NetworkQuantizerOptions {
  std::vector<WeightQuantization> weights;                 ///< One per step; read for conv and linear steps on codes.
  ObserverOptions observer = {};                           ///< How activation ranges are found.
  std::map<std::string, FixedObserver> fixed_ranges = {};  ///< Ranges known beforehand, by the names of their values.
  /// Whether activation scales learn, from what was observed first on; zero points stay. Not those of fixed ranges.
  bool learns_activation_steps = false;
  double step_learning_rate = 0.001;  ///< Of learned steps (see descend), in [0, 1000].
};

/// What a NetworkQuantizer keeps between steps.
struct QuantizerState {
  std::map<std::string, ObservedRange> ranges;           ///< By the names of the observed values.
  std::map<std::string, LearnedSteps> weight_steps;      ///< By layer; all layers whose scales learn.
  std::map<std::string, LearnedSteps> activation_steps;  ///< By a quantizer's first observed value; all that learn.
};

/// The fake quantizers and observers of one network, as its placement says. While enabled, the network's forward
/// observes (in training mode only, until the observers are frozen) and rounds; what it computes in eval mode is what
/// conversion writes.
class NetworkQuantizer {
 public:
  /// Throws Error(invalid_argument) naming an option outside its range, or a fixed range of a value that is not
  /// observed. Does not touch the network.
  NetworkQuantizer(const GraphModule& model, Placement placement, NetworkQuantizerOptions options);

  /// Sets the network's hooks. They outlive this object.
  void enable(GraphModule& model) const;
  /// Removes them.
  void disable(GraphModule& model) const;

  /// From now on ranges and learned steps stay as they are (or move again). Freezing settles the ranges.
  void freeze_observers(bool frozen = true);

  /// While on, forward passes observe in whatever mode the network is and round nothing; switching it off settles the
  /// ranges (see calibrate).
  void observe_only(bool on);

  /// Takes the gradients that learned steps have gathered, and begins steps where what they start from is known now:
  /// a weight that is not all zeros, an observed activation range that has a width. To be called after each optimizer
  /// step.
  void learn_steps(const GraphModule& model);

  /// Where the quantizers stand.
  [[nodiscard]] const Placement& placement() const;
  /// How the weight of a conv, linear or batch-norm step on codes becomes codes.
  [[nodiscard]] WeightQuantization weight_quantization(std::size_t step) const;
  /// The learned steps of a step's weight, before batch-norm folding (see fake_quantize_layer); empty where there are
  /// none yet.
  [[nodiscard]] std::vector<float> weight_steps(std::size_t step) const;

  /// The parameters that a quantizer rounds with at present; none while nothing has been observed.
  [[nodiscard]] std::optional<QParams> qparams(std::size_t quantizer) const;

  /// A value as its quantizer rounds it at present; unchanged where none stands on it.
  [[nodiscard]] torch::Tensor rounded(ValueId value, const torch::Tensor& tensor) const;
  /// A conv or linear step's parameters as they are rounded at present; unchanged for one that works on floats.
  [[nodiscard]] LayerParameters rounded(std::size_t step, const LayerParameters& parameters) const;

  /// The scales that a conv or linear step's weight has at present, one per channel; empty for a step on floats and
  /// while its input has not been observed.
  [[nodiscard]] std::vector<float> weight_scales(std::size_t step, const LayerParameters& parameters) const;

  /// The observed ranges, by the names of their values.
  [[nodiscard]] std::map<std::string, ObservedRange> ranges() const;

  /// All that it keeps between steps, in memory of its own.
  [[nodiscard]] QuantizerState state() const;
  /// Throws Error(invalid_argument) where `state` is not one of this quantizer's, naming a value or layer that only one
  /// of them has, or whose number of steps differs.
  void require_fitting(const QuantizerState& state) const;
  /// Puts back what `state` gave, as from a checkpoint. Throws as require_fitting does, changing nothing.
  void set_state(const QuantizerState& state);

  /// Follows a network that becomes smaller (GraphModule::remove_channels), before its next forward pass: learned steps
  /// of channels that go are cut out; ranges stay.
  void remove_channels(const SmallerGraph& smaller);

  /// The layers and values whose quantizers took part in no forward pass since the last call, by name: someone removed
  /// their hooks. Empty where all is well. Batch norms of their own are not told: in training they may have none.
  [[nodiscard]] std::vector<std::string> take_idle();

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the hooks
};

}  // namespace podaq
