#include "runtime/kernels/pool.h"

#include "runtime/kernels/tables.h"

namespace podaq::runtime_detail {

namespace {

// The size of a {C, L} or {C, H, W} shape along `dimension` of two: 1-D has height 1.
std::size_t spatial_size(const Shape& shape, std::size_t dimension) {
  if (shape.size() == 3) return static_cast<std::size_t>(shape[1 + dimension]);
  return dimension == 0 ? 1 : static_cast<std::size_t>(shape[1]);
}

// An attribute's entry for `dimension` of two: 1-D ones have only the second.
std::size_t entry(const std::vector<std::int64_t>& entries, std::size_t dimension, std::size_t if_absent) {
  if (entries.size() == 2) return static_cast<std::size_t>(entries[dimension]);
  return dimension == 0 ? if_absent : static_cast<std::size_t>(entries[0]);
}

template <typename FixedPool>
void set_fixed_windows(Pool& pool, const NodeView& view, const FixedPool& op,
                       const std::vector<std::int64_t>& dilation) {
  for (const std::size_t dimension : {0, 1})
    (dimension == 0 ? pool.rows : pool.columns) = pool_windows({.input = spatial_size(view.input().shape, dimension),
                                                                .output = spatial_size(view.output().shape, dimension),
                                                                .kernel = entry(op.kernel, dimension, 1),
                                                                .stride = entry(op.stride, dimension, 1),
                                                                .pad_begin = entry(op.pads_begin, dimension, 0),
                                                                .dilation = entry(dilation, dimension, 1)});
  pool.input_width = spatial_size(view.input().shape, 1);
}

void set_windows(Pool& pool, const NodeView& view, const MaxPool& op) {
  set_fixed_windows(pool, view, op, op.dilation);
}

void set_windows(Pool& pool, const NodeView& view, const AvgPool& op) {
  set_fixed_windows(pool, view, op, std::vector<std::int64_t>(op.kernel.size(), 1));
  if (op.count_padding) pool.counted_padding = static_cast<std::size_t>(element_count(op.kernel));
}

void set_windows(Pool& pool, const NodeView& view, const AdaptivePool&) {
  pool.rows = adaptive_windows(spatial_size(view.input().shape, 0), spatial_size(view.output().shape, 0));
  pool.columns = adaptive_windows(spatial_size(view.input().shape, 1), spatial_size(view.output().shape, 1));
  pool.input_width = spatial_size(view.input().shape, 1);
}

// One window over all positions, whatever their number of dimensions.
void set_global_window(Pool& pool, const NodeView& view) {
  pool.rows = adaptive_windows(1, 1);
  pool.columns = adaptive_windows(position_count(view.input().shape), 1);
  pool.input_width = position_count(view.input().shape);
}

void set_windows(Pool& pool, const NodeView& view, const GlobalMean&) {
  set_global_window(pool, view);
}

void set_windows(Pool& pool, const NodeView& view, const GlobalMax&) {
  set_global_window(pool, view);
}

// The largest run of output columns whose windows have the same size and distance.
void find_regular_columns(Pool& pool) {
  const std::vector<WindowSpan>& spans = pool.columns.spans;
  for (std::size_t first = 0; first + 1 < spans.size();) {
    const std::size_t stride = spans[first + 1].first - spans[first].first;
    std::size_t end = first + 1;
    while (end < spans.size() && spans[end].count == spans[first].count &&
           spans[end].first - spans[end - 1].first == stride)
      ++end;
    if (spans[first].count > 0 && end - first > pool.end_regular - pool.first_regular) {
      pool.first_regular = first;
      pool.end_regular = end;
      pool.regular_stride = stride;
    }
    first = end > first + 1 ? end - 1 : end;
  }
}

}  // namespace

bool is_max(const Op& op) {
  if (const auto* adaptive = std::get_if<AdaptivePool>(&op)) return adaptive->kind == AdaptivePool::Kind::max;
  return std::holds_alternative<MaxPool>(op) || std::holds_alternative<GlobalMax>(op);
}

Packed prepare_pool(const NodeView& view) {
  Pool pool{.channels = channel_count(view.input().shape),
            .input_positions = position_count(view.input().shape),
            .rows = {},
            .columns = {},
            .input = strides_of(view.input().shape, view.input_layout()),
            .output = strides_of(view.output().shape, view.output_layout()),
            .input_qparams = view.input().qparams.value_or(QParams{}),
            .output_qparams = view.output().qparams.value_or(QParams{})};
  pool.table = rescaling_table(pool.input_qparams, pool.output_qparams);
  std::visit(
      [&](const auto& op) {
        if constexpr (requires { set_windows(pool, view, op); }) set_windows(pool, view, op);
      },
      view.node.op);
  find_regular_columns(pool);
  return pool;
}

}  // namespace podaq::runtime_detail
