#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "podaq/quantize/observer.h"
#include "podaq/quantize/placement.h"
#include "podaq/training/graph_module.h"

namespace podaq {

/// How a network is fake-quantized.
struct NetworkQuantizerOptions {
  int activation_bits = 8;        ///< 4 to 8.
  std::vector<int> weight_bits;   ///< One per step, 2 to 8; read for conv and linear steps on codes.
  ObserverOptions observer = {};  ///< How activation ranges are found.
};

/// The fake quantizers and observers of one network, as its placement says. While enabled, the network's forward
/// observes (in training mode only, until the observers are frozen) and rounds; what it computes in eval mode is what
/// conversion writes.
class NetworkQuantizer {
 public:
  /// Throws Error(invalid_argument) naming an option outside its range. Does not touch the network.
  NetworkQuantizer(const GraphModule& model, Placement placement, NetworkQuantizerOptions options);

  /// Sets the network's hooks. They outlive this object.
  void enable(GraphModule& model) const;
  /// Removes them.
  void disable(GraphModule& model) const;

  /// From now on ranges stay as they are (or move again).
  void freeze_observers(bool frozen = true);

  /// Where the quantizers stand.
  [[nodiscard]] const Placement& placement() const;
  /// Bits of the weight of a conv or linear step on codes.
  [[nodiscard]] int weight_bits(std::size_t step) const;

  /// The parameters that a quantizer rounds with at present; none while nothing has been observed.
  [[nodiscard]] std::optional<QParams> qparams(std::size_t quantizer) const;

  /// The observed ranges, by the names of their values.
  [[nodiscard]] std::map<std::string, ObservedRange> ranges() const;
  /// Puts ranges back, as from a checkpoint. Throws Error(invalid_argument) naming a value that is not observed here.
  void set_ranges(const std::map<std::string, ObservedRange>& ranges);

  /// The layers and values whose quantizers took part in no forward pass since the last call, by name: someone removed
  /// their hooks. Empty where all is well.
  [[nodiscard]] std::vector<std::string> take_idle();

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the hooks
};

}  // namespace podaq
