#pragma once

#include <span>
#include <string_view>

#include "capture/symbols.h"

namespace podaq::capture_detail {

/// How one ATen operation becomes nodes of the graph: it gives every output of the traced node a symbol, or refuses.
/// One rule serves the in-place form (aten::relu_) too.
struct Rule {
  std::string_view operation;
  void (*map)(Mapping&, const torch::jit::Node&);
};

// The rules by what they map; `mapping.cpp` joins them.
[[nodiscard]] std::span<const Rule> layer_rules();        ///< Convolution, linear, batch norm, dropout.
[[nodiscard]] std::span<const Rule> pooling_rules();      ///< Pooling, global means and maxima.
[[nodiscard]] std::span<const Rule> elementwise_rules();  ///< Arithmetic, clamps, activations, softmax.
[[nodiscard]] std::span<const Rule> shape_rules();        ///< Reshapes, concatenation, copies, constants.

/// Completes `mapping` from its trace: inputs, nodes, outputs.
/// Throws Error(capture) naming the operation, and the layer that called it, where there is no rule for it, a rule
/// refuses it, or it writes into memory that is read later under another name.
void map_trace(Mapping& mapping, const std::vector<std::string>& input_names,
               const std::vector<std::string>& output_names);

/// Adds `bias` to the linear that has just been mapped: LibTorch adds the bias of a linear on more than two
/// dimensions in a separate step. Returns false where `value` is not such a linear.
bool add_bias(Mapping& mapping, const torch::jit::Node& node, const torch::jit::Value* value,
              const torch::jit::Value* bias);

}  // namespace podaq::capture_detail
