#include "runtime/kernel_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <type_traits>

#include "podaq/core/text.h"
#include "runtime/conv_times.h"
#include "runtime/isa.h"
#include "runtime/kernels/registry.h"
#include "runtime/kernels/sparse_conv.h"
#include "runtime/linear_choice.h"
#include "runtime/neighbours.h"

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

// Scalar code: taken only where nothing else can be.
constexpr double impossible = 1e12;

// How much the times at each of the considered batches matter.
using BatchWeights = BatchTimes;

struct Chooser {
  const Graph& graph;
  const CostCoefficients& cost;
  LayoutGroups groups;
  const Neighbours& neighbours;
  BatchWeights weights{};
  std::vector<std::optional<ConvTimes>> conv_times{};  ///< By node; only convolutions of codes have them.

  [[nodiscard]] double bytes(ValueId value) const {
    return static_cast<double>(sample_size(graph.values[value].shape));
  }

  [[nodiscard]] double weigh(const BatchTimes& times) const {
    double sum = 0.0;
    for (std::size_t i = 0; i < times.size(); ++i)
      if (weights[i] != 0.0) sum += weights[i] * std::min(times[i], impossible);
    return sum;
  }
  // A time that is the same at all batches.
  [[nodiscard]] double weigh(double time) const { return time * std::accumulate(weights.begin(), weights.end(), 0.0); }

  [[nodiscard]] double transpose_time(ValueId value, const std::vector<Layout>& layouts, Layout wanted) const {
    const bool differs = position_count(graph.values[value].shape) > 1 && layouts[value] != wanted;
    return differs ? weigh(cost.transpose * bytes(value)) : 0.0;
  }

  // Weighted times of a convolution under given layouts, as far as they leave a choice.
  struct Pick {
    double dense = std::numeric_limits<double>::infinity(), sparse = std::numeric_limits<double>::infinity();
    [[nodiscard]] bool is_sparse() const { return sparse < dense; }
    [[nodiscard]] double time() const { return std::min(sparse, dense); }
  };
  [[nodiscard]] Pick pick(std::size_t index, const std::vector<Layout>& layouts) const {
    const Node& node = graph.nodes[index];
    const Value& output = graph.values[node.output];
    const ConvTimes& times = *conv_times[index];
    const bool is_free = !output.qparams || position_count(output.shape) == 1;
    Pick picked;
    if (is_free || layouts[node.output] == Layout::channels_last) {
      const bool has_planar_residual = node.inputs.size() > 1 && layouts[node.inputs[1]] == Layout::planar;
      const DenseTimes& dense = has_planar_residual ? times.dense_planar_residual : times.dense;
      picked.dense = times.quantize
                         ? weigh(dense.of_floats)
                         : weigh(dense.of_codes) + transpose_time(node.inputs[0], layouts, Layout::channels_last);
    }
    if (is_free || layouts[node.output] == Layout::planar) {
      picked.sparse = weigh(times.sparse);
      for (const ValueId input : node.inputs) picked.sparse += transpose_time(input, layouts, Layout::planar);
    }
    return picked;
  }

  // Whether the convolution that computes a value, or alone reads it, is a dense one that absorbs the node.
  [[nodiscard]] bool is_absorbed(std::size_t index, const std::vector<Layout>& layouts) const {
    const Node& node = graph.nodes[index];
    const auto absorbs = [&](std::optional<std::size_t> conv, std::optional<std::size_t> ConvTimes::*neighbour) {
      return conv && conv_times[*conv] && *conv_times[*conv].*neighbour == index && !pick(*conv, layouts).is_sparse();
    };
    return absorbs(neighbours.own_producers[node.inputs[0]], &ConvTimes::pool) ||
           absorbs(neighbours.sole_readers[node.output], &ConvTimes::quantize);
  }

  [[nodiscard]] double time_of(const Conv&, std::size_t index, const std::vector<Layout>& layouts) const {
    return conv_times[index] ? pick(index, layouts).time() : 0.0;
  }
  [[nodiscard]] double time_of(const Quantize&, std::size_t index, const std::vector<Layout>& layouts) const {
    const ValueId output = graph.nodes[index].output;
    const Shape& shape = graph.values[output].shape;
    if (is_absorbed(index, layouts)) return 0.0;
    return weigh(at_batches([&](std::size_t batch) {
      return quantize_ns(channel_count(shape), position_count(shape), batch, layouts[output], cost);
    }));
  }
  [[nodiscard]] double time_of(const MaxPool& pool, std::size_t index, const std::vector<Layout>& layouts) const {
    const Node& node = graph.nodes[index];
    const Value& output = graph.values[node.output];
    if (!output.qparams || is_absorbed(index, layouts)) return 0.0;
    const std::size_t columns = static_cast<std::size_t>(output.shape.back());
    const PoolSize size{.channels = channel_count(output.shape),
                        .rows = position_count(output.shape) / columns,
                        .columns = columns,
                        .taps = static_cast<std::size_t>(element_count(pool.kernel)),
                        .has_fast_stride = pool.stride.back() <= 2 && columns > 1};
    return weigh(
        at_batches([&](std::size_t batch) { return max_pool_ns(size, batch, layouts[node.inputs[0]], cost); }));
  }
  // Only scalar code takes the mean of planar windows.
  [[nodiscard]] double time_of(const AvgPool& pool, std::size_t index, const std::vector<Layout>& layouts) const {
    const Node& node = graph.nodes[index];
    if (layouts[node.inputs[0]] != Layout::planar || !graph.values[node.output].qparams) return 0.0;
    return weigh(cost.scalar * static_cast<double>(element_count(pool.kernel)) * bytes(node.output));
  }
  [[nodiscard]] double time_of(const AdaptivePool& pool, std::size_t index, const std::vector<Layout>& layouts) const {
    const Node& node = graph.nodes[index];
    if (layouts[node.inputs[0]] != Layout::planar || !graph.values[node.output].qparams) return 0.0;
    return pool.kind == AdaptivePool::Kind::max ? 0.0 : weigh(cost.scalar * bytes(node.inputs[0]));
  }
  // A linear absorbs the flatten before it; others are copied, element by element where the layout changes.
  [[nodiscard]] double time_of(const Reshape&, std::size_t index, const std::vector<Layout>& layouts) const {
    const Node& node = graph.nodes[index];
    const Value& output = graph.values[node.output];
    const auto reader = neighbours.sole_readers[node.output];
    const bool is_absorbed_by_linear =
        output.shape.size() == 1 && reader && std::holds_alternative<Linear>(graph.nodes[*reader].op);
    const bool keeps_order = layouts[node.inputs[0]] == Layout::planar && layouts[node.output] == Layout::planar;
    return !output.qparams || is_absorbed_by_linear || keeps_order ? 0.0 : weigh(bytes(node.output) * cost.scalar);
  }
  [[nodiscard]] double time_of(const Dequantize&, std::size_t index, const std::vector<Layout>& layouts) const {
    const ValueId input = graph.nodes[index].inputs[0];
    const bool keeps_order = layouts[input] == Layout::planar || position_count(graph.values[input].shape) == 1;
    return keeps_order ? 0.0 : weigh(cost.scalar * bytes(input));
  }
  // The same in both layouts.
  template <typename OtherOp>
  [[nodiscard]] double time_of(const OtherOp&, std::size_t, const std::vector<Layout>&) const {
    return 0.0;
  }

  [[nodiscard]] double total(const std::vector<Layout>& layouts) const {
    double time = 0.0;
    for (std::size_t index = 0; index < graph.nodes.size(); ++index)
      time += std::visit([&](const auto& op) { return time_of(op, index, layouts); }, graph.nodes[index].op);
    return time;
  }

  // The time at one of the considered batches.
  [[nodiscard]] double total_at(std::size_t batch, const std::vector<Layout>& layouts) {
    const BatchWeights kept = weights;
    weights = {};
    weights[batch] = 1.0;
    const double time = total(layouts);
    weights = kept;
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

std::vector<Layout> choose_layouts(const Chooser& chooser) {
  std::vector<Layout> dense = chooser.all(Layout::channels_last);
  std::vector<Layout> planar = chooser.all(Layout::planar);
  const double dense_time = chooser.descend(dense);
  const double planar_time = chooser.descend(planar);
  return planar_time < dense_time ? planar : dense;
}

// The layouts that are fastest where both batches matter alike, relatively, but slower than all dense at neither, and
// clearly faster in the mean: estimates err. Leaves the weights that led there.
std::vector<Layout> choose_layouts_for_batches(Chooser& chooser) {
  constexpr int most_attempts = 6;
  constexpr double most_of_dense = 0.96;
  const std::vector<Layout> dense = chooser.all(Layout::channels_last);
  BatchTimes dense_times{};
  for (std::size_t batch = 0; batch < dense_times.size(); ++batch) {
    dense_times[batch] = std::max(1.0, chooser.total_at(batch, dense));
    chooser.weights[batch] = 1.0 / dense_times[batch];
  }
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    const std::vector<Layout> chosen = choose_layouts(chooser);
    bool loses = false;
    double sum = 0.0;
    for (std::size_t batch = 0; batch < dense_times.size(); ++batch) {
      const double of_dense = chooser.total_at(batch, chosen) / dense_times[batch];
      sum += of_dense;
      if (of_dense <= 1.0) continue;
      chooser.weights[batch] *= 2.0;
      loses = true;
    }
    if (!loses) return sum <= most_of_dense * static_cast<double>(dense_times.size()) ? chosen : dense;
  }
  return dense;
}

std::string microseconds(double ns) {
  return concat(std::round(ns / 10.0) / 100.0, " us");
}

// Why a convolution runs dense or sparse, with times of single samples.
std::string reason_of(const Chooser& chooser, std::size_t index, const std::vector<Layout>& layouts, bool is_sparse) {
  const std::string zeros = concat(std::round(100.0 * chooser.conv_times[index]->zeros), " % zeros");
  const auto alone = chooser.pick(index, chooser.all(is_sparse ? Layout::channels_last : Layout::planar));
  const auto here = chooser.pick(index, layouts);
  const double other = is_sparse ? alone.dense : alone.sparse;
  const std::string_view name = is_sparse ? "dense" : "sparse";
  if (other >= impossible) return concat(zeros, "; no ", name, " kernel fits");
  const bool is_faster = other < (is_sparse ? here.sparse : here.dense);
  return concat(zeros, "; ", name, ": ", microseconds(other), " a sample",
                is_faster ? ", but batches or neighbours lose" : "");
}

std::string reason_of(const Kernel& kernel, Isa isa) {
  if (kernel.isa != Isa::reference || isa == Isa::reference) return concat("the first that fits on ", name_of(isa));
  return concat("none for ", name_of(isa), " fits");
}

}  // namespace

KernelChoices choose_kernels(const Graph& graph, Isa isa, SparseKernels sparse, const CostCoefficients& cost) {
  KernelChoices choices{.layouts = std::vector<Layout>(graph.values.size(), Layout::planar),
                        .kernels = {},
                        .reasons = {},
                        .packed = std::vector<std::optional<Packed>>(graph.nodes.size())};
  const Neighbours neighbours = neighbours_of(graph);
  Chooser chooser{.graph = graph, .cost = cost, .groups = LayoutGroups(graph), .neighbours = neighbours};
  chooser.conv_times.resize(graph.nodes.size());
  const bool has_sparse = is_usable(Isa::avx512, isa);
  if (has_sparse && sparse == SparseKernels::automatic) {
    for (std::size_t index = 0; index < graph.nodes.size(); ++index)
      if (std::holds_alternative<Conv>(graph.nodes[index].op) && graph.values[graph.nodes[index].inputs[0]].qparams)
        chooser.conv_times[index] = conv_times(graph, index, neighbours, isa, cost);
    choices.layouts = choose_layouts_for_batches(chooser);
  } else if (has_sparse) {
    choices.layouts = chooser.all(sparse == SparseKernels::always ? Layout::planar : Layout::channels_last);
  } else if (is_usable(Isa::avx2, isa)) {
    choices.layouts = chooser.all(Layout::channels_last);
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
    const bool wants_sparse = times ? chooser.pick(index, choices.layouts).is_sparse()
                                    : has_sparse && sparse == SparseKernels::always &&
                                          std::holds_alternative<Conv>(view.node.op) && view.has_codes();
    const bool is_sparse = wants_sparse && avx512::sparse_conv.accepts(view);
    choices.kernels.push_back(is_sparse ? &avx512::sparse_conv : &choose_kernel(view, isa));
    if (is_sparse && times && times->packed) {
      set_operand_layouts(std::get<SparseConv>(*times->packed), view);
      choices.packed[index] = std::move(times->packed);
    }
  }
  chooser.weights = {1.0};
  for (std::size_t index = 0; index < graph.nodes.size(); ++index) {
    const Kernel& kernel = *choices.kernels[index];
    choices.reasons.push_back(chooser.conv_times[index]
                                  ? reason_of(chooser, index, choices.layouts, &kernel == &avx512::sparse_conv)
                                  : reason_of(kernel, isa));
  }
  return choices;
}

}  // namespace podaq::runtime_detail
