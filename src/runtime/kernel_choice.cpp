#include "runtime/kernel_choice.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <type_traits>

#include "runtime/isa.h"
#include "runtime/kernels/depthwise_conv.h"
#include "runtime/kernels/registry.h"
#include "runtime/kernels/sparse_conv.h"
#include "runtime/kernels/weights.h"
#include "runtime/linear_choice.h"

namespace podaq::runtime_detail {

namespace {

// Values that share a layout, by the id of one of them.
class LayoutGroups {
 public:
  explicit LayoutGroups(const Graph& graph) : parents_(graph.values.size()) {
    std::iota(parents_.begin(), parents_.end(), ValueId{0});
    for (const Node& node : graph.nodes)
      if (keeps_layout(node.op))
        for (const ValueId input : node.inputs) join(graph, input, node.output);
  }

  [[nodiscard]] ValueId of(ValueId value) const {
    while (parents_[value] != value) value = parents_[value];
    return value;
  }

 private:
  static bool keeps_layout(const Op& op) {
    return std::visit(
        [](const auto& alternative) {
          using T = std::decay_t<decltype(alternative)>;
          return std::is_same_v<T, MaxPool> || std::is_same_v<T, AvgPool> || std::is_same_v<T, AdaptivePool> ||
                 std::is_same_v<T, Add> || std::is_same_v<T, Mul> || std::is_same_v<T, Concat> ||
                 std::is_same_v<T, Clamp> || std::is_same_v<T, Affine> || std::is_same_v<T, Activation>;
        },
        op);
  }

  void join(const Graph& graph, ValueId a, ValueId b) {
    if (graph.values[a].shape.size() < 2 || graph.values[b].shape.size() < 2) return;
    parents_[of(a)] = of(b);
  }

  std::vector<ValueId> parents_;
};

bool has_layout(const Value& value) {
  return value.qparams && value.shape.size() > 1;
}

// Times of a convolution of codes by each kernel; infinite where it cannot compute the node.
struct ConvTimes {
  double dense = std::numeric_limits<double>::infinity();
  double sparse = std::numeric_limits<double>::infinity();
  std::optional<Packed> packed;  ///< For the sparse one, where its time was not just guessed.
};

struct Chooser {
  const Graph& graph;
  const CostCoefficients& cost;
  LayoutGroups groups;
  std::vector<std::optional<ConvTimes>> conv_times;  ///< By node; only convolutions of codes have them.

  [[nodiscard]] double bytes(ValueId value) const {
    return static_cast<double>(sample_size(graph.values[value].shape));
  }

  [[nodiscard]] double transposes(const Node& node, const std::vector<Layout>& layouts, Layout wanted) const {
    double time = 0.0;
    for (const ValueId input : node.inputs)
      if (position_count(graph.values[input].shape) > 1 && layouts[input] != wanted)
        time += cost.transpose * bytes(input);
    return time;
  }

  // The faster kernel of a convolution, as far as the layout of its output leaves a choice.
  struct Pick {
    bool is_sparse = false;
    double time = 0.0;
  };
  [[nodiscard]] Pick pick(std::size_t index, const std::vector<Layout>& layouts) const {
    constexpr double impossible = 1e12;  // scalar code: taken only where nothing else can be
    const Node& node = graph.nodes[index];
    const Value& output = graph.values[node.output];
    const bool is_free = !output.qparams || position_count(output.shape) == 1;
    const auto time = [&](double kernel, Layout wanted) {
      const bool fits = is_free || layouts[node.output] == wanted;
      return fits ? std::min(kernel, impossible) + transposes(node, layouts, wanted)
                  : std::numeric_limits<double>::infinity();
    };
    const double dense = time(conv_times[index]->dense, Layout::channels_last);
    const double sparse = time(conv_times[index]->sparse, Layout::planar);
    return {.is_sparse = sparse < dense, .time = std::min(sparse, dense)};
  }

  [[nodiscard]] double pool_time(const Node& node, Layout layout) const {
    const Value& input = graph.values[node.inputs[0]];
    const auto* max_pool = std::get_if<MaxPool>(&node.op);
    if (max_pool == nullptr || !input.qparams) return 0.0;  // the same in both layouts
    const double taps = static_cast<double>(element_count(max_pool->kernel));
    return taps * bytes(node.output) * (layout == Layout::planar ? cost.planar_pool_load : cost.pool_load);
  }

  [[nodiscard]] double node_time(std::size_t index, const std::vector<Layout>& layouts) const {
    const Node& node = graph.nodes[index];
    if (conv_times[index]) return pick(index, layouts).time;
    const bool planar_output = layouts[node.output] == Layout::planar;
    if (std::holds_alternative<Quantize>(node.op)) {
      const bool scatters = !planar_output && graph.values[node.output].shape[0] > 2;
      return bytes(node.output) * (scatters ? cost.scalar : cost.quantize);
    }
    if (std::holds_alternative<Reshape>(node.op) && graph.values[node.output].qparams)
      return layouts[node.inputs[0]] == Layout::planar && planar_output ? 0.0 : bytes(node.output) * cost.scalar;
    return pool_time(node, layouts[node.inputs.empty() ? node.output : node.inputs[0]]);
  }

  [[nodiscard]] double total(const std::vector<Layout>& layouts) const {
    double time = 0.0;
    for (std::size_t index = 0; index < graph.nodes.size(); ++index) time += node_time(index, layouts);
    return time;
  }

  [[nodiscard]] std::vector<Layout> all(Layout layout) const {
    std::vector<Layout> layouts;
    for (const Value& value : graph.values) layouts.push_back(has_layout(value) ? layout : Layout::planar);
    return layouts;
  }

  // Turns over one group after another for as long as that helps.
  double descend(std::vector<Layout>& layouts) const {
    double best = total(layouts);
    for (bool improves = true; improves;) {
      improves = false;
      for (ValueId value = 0; value < graph.values.size(); ++value) {
        if (groups.of(value) != value) continue;
        std::vector<Layout> turned = layouts;
        for (ValueId member = 0; member < graph.values.size(); ++member)
          if (groups.of(member) == value && has_layout(graph.values[member]))
            turned[member] = layouts[member] == Layout::planar ? Layout::channels_last : Layout::planar;
        const double time = turned == layouts ? best : total(turned);
        if (time < best) {
          best = time;
          layouts = std::move(turned);
          improves = true;
        }
      }
    }
    return best;
  }
};

ConvTimes conv_times(const Graph& graph, const Node& node, Isa isa, const CostCoefficients& cost) {
  const ConvGeometry g = geometry_of(graph, node);
  const std::vector<Layout> all_last(graph.values.size(), Layout::channels_last);
  const std::vector<Layout> all_planar(graph.values.size(), Layout::planar);
  const NodeView last{.graph = graph, .node = node, .layouts = all_last};
  const NodeView planar{.graph = graph, .node = node, .layouts = all_planar};
  ConvTimes times;
  if (avx512::depthwise_conv.accepts(last))
    times.dense = depthwise_conv_ns(g);
  else if (is_usable(Isa::amx, isa) && amx::tile_conv.accepts(last))
    times.dense = tile_conv_ns(g, cost);
  else if (avx512::quad_conv.accepts(last))
    times.dense = quad_conv_ns(g, cost);
  if (!avx512::sparse_conv.accepts(planar)) return times;
  // Arranging the weights takes time at load: only where it could pay.
  const std::vector<std::int8_t> weights = integer_weights(planar);
  if (guess_sparse_conv_ns(g, weights, avx512::most_joined_rows, cost) >= times.dense) {
    times.sparse = guess_sparse_conv_ns(g, weights, 1, cost);
    return times;
  }
  times.packed = avx512::sparse_conv.prepare(planar);
  times.sparse = sparse_conv_ns(g, std::get<SparseConv>(*times.packed).program, cost);
  return times;
}

std::vector<Layout> choose_layouts(const Chooser& chooser, SparseKernels sparse) {
  std::vector<Layout> dense = chooser.all(Layout::channels_last);
  std::vector<Layout> planar = chooser.all(Layout::planar);
  if (sparse == SparseKernels::never) return dense;
  if (sparse == SparseKernels::always) return planar;
  const double dense_time = chooser.descend(dense);
  const double planar_time = chooser.descend(planar);
  return planar_time < dense_time ? planar : dense;
}

}  // namespace

KernelChoices choose_kernels(const Graph& graph, Isa isa, SparseKernels sparse, const CostCoefficients& cost) {
  KernelChoices choices{.layouts = std::vector<Layout>(graph.values.size(), Layout::planar),
                        .kernels = {},
                        .packed = std::vector<std::optional<Packed>>(graph.nodes.size())};
  Chooser chooser{.graph = graph, .cost = cost, .groups = LayoutGroups(graph), .conv_times = {}};
  chooser.conv_times.resize(graph.nodes.size());
  if (is_usable(Isa::avx512, isa)) {
    for (std::size_t index = 0; index < graph.nodes.size(); ++index) {
      const Node& node = graph.nodes[index];
      if (std::holds_alternative<Conv>(node.op) && graph.values[node.inputs[0]].qparams)
        chooser.conv_times[index] =
            sparse == SparseKernels::automatic ? conv_times(graph, node, isa, cost) : ConvTimes{};
    }
    choices.layouts = choose_layouts(chooser, sparse);
  }
  for (std::size_t index = 0; index < graph.nodes.size(); ++index) {
    const NodeView view{.graph = graph, .node = graph.nodes[index], .layouts = choices.layouts};
    if (std::holds_alternative<Linear>(view.node.op))
      if (auto packed = choose_sparse_linear(view, isa, sparse)) {
        choices.kernels.push_back(&avx512::sparse_linear);
        choices.packed[index] = std::move(packed);
        continue;
      }
    auto& times = chooser.conv_times[index];
    const bool wants_sparse =
        times && (sparse == SparseKernels::automatic ? chooser.pick(index, choices.layouts).is_sparse
                                                     : sparse == SparseKernels::always);
    const bool is_sparse = wants_sparse && avx512::sparse_conv.accepts(view);
    choices.kernels.push_back(is_sparse ? &avx512::sparse_conv : &choose_kernel(view, isa));
    if (is_sparse && times->packed) {
      set_operand_layouts(std::get<SparseConv>(*times->packed), view);
      choices.packed[index] = std::move(times->packed);
    }
  }
  return choices;
}

}  // namespace podaq::runtime_detail
