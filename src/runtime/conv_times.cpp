#include "runtime/conv_times.h"

#include <algorithm>
#include <vector>

#include "runtime/kernels/absorption.h"
#include "runtime/kernels/depthwise_conv.h"
#include "runtime/kernels/quad_conv.h"
#include "runtime/kernels/quad_packing.h"
#include "runtime/kernels/registry.h"
#include "runtime/kernels/tile_conv.h"
#include "runtime/kernels/weights.h"

namespace podaq::runtime_detail {

namespace {

// time_of(surroundings) at each of the considered batches.
template <typename TimeOf>
BatchTimes at_batches_of(ConvSurroundings around, TimeOf time_of) {
  return at_batches([&](std::size_t batch) {
    around.batch = batch;
    return time_of(around);
  });
}

// The max pooling that a dense kernel would absorb.
struct AbsorbedPool {
  std::optional<std::size_t> node;
  PoolWindow window{};
};

AbsorbedPool absorbed_pool(const NodeView& view, const Kernel& kernel, std::optional<std::size_t> reader) {
  if (!reader) return {};
  const auto& conv = std::get<Conv>(view.node.op);
  const ConvGeometry g = geometry_of(view.graph, view.node);
  const NodeView pool{.graph = view.graph, .node = view.graph.nodes[*reader], .layouts = view.layouts};
  const auto window = pool_to_absorb(g, integer_epilogue(view, conv.adds_input, conv.clamp), pool);
  if (!window) return {};
  const bool can = &kernel == &amx::tile_conv ? amx::can_pool(with_merged_groups(g), *window) : is_small_pool(*window);
  if (!can) return {};
  return {.node = reader, .window = *window};
}

// The times by the dense kernel that fits under given layouts, and the pooling that it absorbs.
void set_dense_times(const NodeView& view, Isa isa, std::optional<std::size_t> reader, const CostCoefficients& cost,
                     ConvTimes& times) {
  const Kernel& kernel = choose_kernel(view, isa);
  const ConvGeometry g = geometry_of(view.graph, view.node);
  if (&kernel == &avx512::depthwise_conv) {
    times.dense.of_codes = at_batches([&](std::size_t) { return depthwise_conv_ns(g); });
    return;
  }
  if (&kernel != &amx::tile_conv && &kernel != &avx512::quad_conv) return;
  const bool adds = view.node.inputs.size() > 1;
  const bool has_planar_residual = adds && view.input_layout(1) == Layout::planar;
  const AbsorbedPool pool = absorbed_pool(view, kernel, reader);
  ConvSurroundings around{.transposes_residual = has_planar_residual, .adds_residual = adds, .pool = pool.window};
  const auto times_now = [&] {
    return at_batches_of(around, [&](const ConvSurroundings& at_batch) {
      return &kernel == &amx::tile_conv ? tile_conv_ns(g, at_batch, cost) : quad_conv_ns(g, at_batch, cost);
    });
  };
  DenseTimes& dense = has_planar_residual ? times.dense_planar_residual : times.dense;
  dense.of_codes = times_now();
  around.quantizes = true;
  dense.of_floats = times_now();
  times.pool = pool.node;
}

}  // namespace

ConvTimes conv_times(const Graph& graph, std::size_t index, const Neighbours& neighbours, Isa isa,
                     const CostCoefficients& cost) {
  const Node& node = graph.nodes[index];
  const ConvGeometry g = geometry_of(graph, node);
  const bool adds = node.inputs.size() > 1;
  ConvTimes times;
  std::vector<Layout> layouts(graph.values.size(), Layout::channels_last);
  const NodeView view{.graph = graph, .node = node, .layouts = layouts};
  set_dense_times(view, isa, neighbours.sole_readers[node.output], cost, times);
  if (adds) {
    layouts[node.inputs[1]] = Layout::planar;
    set_dense_times(view, isa, neighbours.sole_readers[node.output], cost, times);
  }
  const auto producer = neighbours.own_producers[node.inputs[0]];
  if (producer && std::holds_alternative<Quantize>(graph.nodes[*producer].op)) times.quantize = producer;

  const std::vector<Layout> all_planar(graph.values.size(), Layout::planar);
  const NodeView planar{.graph = graph, .node = node, .layouts = all_planar};
  if (!avx512::sparse_conv.accepts(planar)) return times;
  const std::vector<std::int8_t> weights = integer_weights(planar);
  const auto zeros = static_cast<double>(std::count(weights.begin(), weights.end(), std::int8_t{0}));
  times.zeros = weights.empty() ? 0.0 : zeros / static_cast<double>(weights.size());
  // Arranging the weights takes time at load: only where it could pay.
  const ConvSurroundings around{.adds_residual = adds};
  const SparseGuess guessed = guess_sparse_conv(g, static_cast<double>(weights.size()) - zeros);
  const auto guess = [&](std::size_t joined_rows) {
    return at_batches_of(around, [&](const ConvSurroundings& at_batch) {
      return guessed_sparse_conv_ns(g, at_batch, guessed, joined_rows, cost);
    });
  };
  const BatchTimes least = guess(avx512::most_joined_rows);
  if (least[0] >= std::max(times.dense.of_codes[0], times.dense.of_floats[0])) {
    times.sparse = guess(1);
    return times;
  }
  times.packed = avx512::sparse_conv.prepare(planar);
  times.sparse = at_batches_of(around, [&](const ConvSurroundings& at_batch) {
    return sparse_conv_ns(std::get<SparseConv>(*times.packed), at_batch, cost);
  });
  return times;
}

}  // namespace podaq::runtime_detail
