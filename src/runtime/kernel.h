#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "podaq/graph/graph.h"
#include "podaq/runtime/model.h"
#include "runtime/kernels/packed.h"
#include "runtime/layout.h"

namespace podaq::runtime_detail {

/// What a kernel sees of one node while a plan is built.
struct NodeView {
  const Graph& graph;
  const Node& node;
  std::span<const Layout> layouts;  ///< One per value of the graph.

  [[nodiscard]] const Value& input(std::size_t index = 0) const { return graph.values[node.inputs[index]]; }
  [[nodiscard]] const Value& output() const { return graph.values[node.output]; }
  [[nodiscard]] Layout input_layout(std::size_t index = 0) const { return layouts[node.inputs[index]]; }
  [[nodiscard]] Layout output_layout() const { return layouts[node.output]; }
  [[nodiscard]] bool has_codes(std::size_t index = 0) const { return input(index).qparams.has_value(); }
  [[nodiscard]] bool gives_codes() const { return output().qparams.has_value(); }

  /// The constant at `index` of the op's documented order, or nullptr where absent.
  [[nodiscard]] const Tensor* tensor(std::size_t index) const {
    if (index >= node.tensors.size() || node.tensors[index].empty()) return nullptr;
    return &tensor_at(graph, node.tensors[index]);
  }
};

/// Whether one channel's positions are neighbours in memory; false where a single position makes both orders the same.
[[nodiscard]] inline bool is_planar(const Value& value, Layout layout) {
  return layout == Layout::planar && position_count(value.shape) > 1;
}

/// Where a kernel reads and writes while a batch runs. Samples of a value lie one after another.
struct Operands {
  std::span<const std::byte* const> inputs;
  std::byte* output = nullptr;
  std::byte* scratch = nullptr;  ///< 64-byte aligned, at least as large as the kernel asked for.
  std::size_t batch = 0;
};

/// One way to compute an op. Kernels are listed per op, most specialised first.
struct Kernel {
  std::string_view name;
  Isa isa = Isa::reference;                               ///< The instruction set that it needs.
  bool (*accepts)(const NodeView&) = nullptr;             ///< Whether it can compute this node.
  Packed (*prepare)(const NodeView&) = nullptr;           ///< Packs weights and everything else that is constant.
  void (*run)(const Packed&, const Operands&) = nullptr;  ///< Computes a batch; allocates nothing.
  std::size_t (*scratch_bytes)(const Packed&) = nullptr;  ///< Scratch memory that `run` needs; null: none.
  bool (*runs_in_place)(const Packed&) = nullptr;  ///< Whether the output may lie where an input does; null: never.
  /// Makes a packed node also compute the one that alone reads its output; false where it cannot. Null: never.
  bool (*absorb_reader)(Packed&, const NodeView& reader) = nullptr;
  /// Likewise the node that computes its first input, which nobody else reads.
  bool (*absorb_producer)(Packed&, const NodeView& producer) = nullptr;
};

/// Readable bytes behind every value and scratch area, so that vector loads may run past the end of a row.
inline constexpr std::size_t over_read_bytes = 64;

/// For kernels that compute each element from the elements at the same place: they always run in place.
[[nodiscard]] inline bool is_elementwise(const Packed&) {
  return true;
}

/// The kernels of an op, most specialised first, the reference last.
[[nodiscard]] std::span<const Kernel* const> kernels_of(const Op& op);

/// The first kernel of the list that runs on `isa` and accepts the node. Throws Error(unsupported) naming the node
/// where none does.
[[nodiscard]] const Kernel& choose_kernel(const NodeView& view, Isa isa);

}  // namespace podaq::runtime_detail
