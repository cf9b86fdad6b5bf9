// Pooling, global means and maxima.
#include <torch/torch.h>

#include <algorithm>
#include <array>

#include "capture/mapping.h"
#include "podaq/core/text.h"

namespace podaq::capture_detail {

namespace jit = torch::jit;

namespace {

using Sizes = std::vector<std::int64_t>;

// What max and average pooling share, one entry per spatial dimension.
struct Windows {
  ValueId input = 0;
  Sizes kernel, stride, pads_begin, pads_end, dilation;
  bool reaches_past_padding = false;  ///< Ceil mode added a window that the padding does not cover.
};

void need_first_output_only(const Mapping& mapping, const jit::Node& node) {
  if (node.outputs().size() > 1 && node.output(1)->hasUses())
    refuse(mapping, node, "the indices of the largest elements are not supported");
}

// A module's ceil mode rounds the number of windows up for the shape at hand; the graph says so by padding the end.
Windows windows_of(const Mapping& mapping, const jit::Node& node, bool has_dilation) {
  Windows windows;
  windows.input = value_of(mapping, node, argument(mapping, node, "self"));
  const Shape& shape = mapping.graph.values[windows.input].shape;
  if (shape.size() != 2 && shape.size() != 3) refuse(mapping, node, "only 1-D and 2-D pooling is supported");
  const std::size_t spatial = shape.size() - 1;
  windows.kernel = spread(integers(mapping, node, "kernel_size"), spatial);
  windows.stride = spread(integers(mapping, node, "stride"), spatial);
  if (windows.stride.empty()) windows.stride = windows.kernel;
  windows.pads_begin = windows.pads_end = spread(integers(mapping, node, "padding"), spatial);
  windows.dilation = has_dilation ? spread(integers(mapping, node, "dilation"), spatial) : Sizes(spatial, 1);
  if (!boolean(mapping, node, "ceil_mode")) return windows;
  const Shape traced = sizes_of(mapping, node, node.output(0));
  for (std::size_t i = 0; i < spatial; ++i) {
    const std::int64_t span = (windows.kernel[i] - 1) * windows.dilation[i] + 1;
    const std::int64_t covered = shape[i + 1] + windows.pads_begin[i];
    const std::int64_t needed = (traced[i + 2] - 1) * windows.stride[i] + span - covered;
    if (needed <= windows.pads_end[i]) continue;
    windows.pads_end[i] = needed;
    windows.reaches_past_padding = true;
  }
  return windows;
}

void map_max_pool(Mapping& mapping, const jit::Node& node) {
  need_first_output_only(mapping, node);
  Windows windows = windows_of(mapping, node, true);
  MaxPool pool{.kernel = windows.kernel,
               .stride = windows.stride,
               .pads_begin = windows.pads_begin,
               .pads_end = windows.pads_end,
               .dilation = windows.dilation};
  finish(mapping, node, append(mapping, node, "max_pool", std::move(pool), {windows.input}));
}

void map_avg_pool(Mapping& mapping, const jit::Node& node) {
  Windows windows = windows_of(mapping, node, false);
  const c10::FunctionSchema* schema = node.maybeSchema();
  if (schema->argumentIndexWithName("divisor_override") && !is_none(argument(mapping, node, "divisor_override")))
    refuse(mapping, node, "a divisor of its own is not supported");
  bool count_padding = boolean(mapping, node, "count_include_pad");
  if (windows.reaches_past_padding) {
    // LibTorch counts the padding, but not what ceil mode adds beyond it; the graph has one rule for both.
    if (count_padding && std::ranges::any_of(windows.pads_begin, [](std::int64_t pad) { return pad > 0; }))
      refuse(mapping, node, "ceil mode together with counted padding is not supported");
    count_padding = false;
  }
  AvgPool pool{.kernel = windows.kernel,
               .stride = windows.stride,
               .pads_begin = windows.pads_begin,
               .pads_end = windows.pads_end,
               .count_padding = count_padding};
  finish(mapping, node, append(mapping, node, "avg_pool", std::move(pool), {windows.input}));
}

// The value over all spatial dimensions, in the shape that the trace gives it.
void append_global(Mapping& mapping, const jit::Node& node, std::string_view kind, Op op, ValueId input) {
  ValueId value = append(mapping, node, kind, std::move(op), {input});
  const Shape traced = sizes_of(mapping, node, node.output(0));
  Shape shape(traced.begin() + 1, traced.end());
  if (shape != mapping.graph.values[value].shape)
    value = append(mapping, node, "reshape", Reshape{.shape = std::move(shape)}, {value});
  finish(mapping, node, value);
}

void append_adaptive(Mapping& mapping, const jit::Node& node, AdaptivePool::Kind kind) {
  need_first_output_only(mapping, node);
  const ValueId input = value_of(mapping, node, argument(mapping, node, "self"));
  const Shape shape = mapping.graph.values[input].shape;
  const Sizes size = integers(mapping, node, "output_size");
  const bool is_mean = kind == AdaptivePool::Kind::mean;
  if (shape.size() != size.size() + 1) refuse(mapping, node, "it does not pool all spatial dimensions");
  if (std::ranges::all_of(size, [](std::int64_t extent) { return extent == 1; })) {
    append_global(mapping, node, is_mean ? "global_mean" : "global_max", is_mean ? Op(GlobalMean{}) : Op(GlobalMax{}),
                  input);
    return;
  }
  Sizes kernel;
  for (std::size_t i = 0; i < size.size(); ++i)
    if (size[i] > 0 && shape[i + 1] % size[i] == 0) kernel.push_back(shape[i + 1] / size[i]);
  const Sizes zeros(size.size(), 0);
  const Sizes ones(size.size(), 1);
  Op op = AdaptivePool{.kind = kind, .output_size = size};
  if (kernel.size() == size.size()) {
    if (is_mean)
      op = AvgPool{.kernel = kernel, .stride = kernel, .pads_begin = zeros, .pads_end = zeros, .count_padding = true};
    else
      op = MaxPool{.kernel = kernel, .stride = kernel, .pads_begin = zeros, .pads_end = zeros, .dilation = ones};
  }
  finish(mapping, node, append(mapping, node, is_mean ? "avg_pool" : "max_pool", std::move(op), {input}));
}

void map_adaptive_mean(Mapping& mapping, const jit::Node& node) {
  append_adaptive(mapping, node, AdaptivePool::Kind::mean);
}
void map_adaptive_max(Mapping& mapping, const jit::Node& node) {
  append_adaptive(mapping, node, AdaptivePool::Kind::max);
}

// The input of a reduction over all spatial dimensions; those of size 1 may be left out.
ValueId reduced_input(const Mapping& mapping, const jit::Node& node) {
  const ValueId input = value_of(mapping, node, argument(mapping, node, "self"));
  const Shape& shape = mapping.graph.values[input].shape;
  if (is_none(argument(mapping, node, "dim"))) refuse(mapping, node, "it works across the batch");
  std::vector<bool> is_reduced(shape.size(), false);
  for (const std::int64_t dimension : integers(mapping, node, "dim"))
    is_reduced.at(static_cast<std::size_t>(sample_axis(mapping, node, dimension, shape.size()))) = true;
  bool fits = shape.size() >= 2 && !is_reduced[0];
  for (std::size_t i = 1; i < shape.size(); ++i) fits = fits && (is_reduced[i] || shape[i] == 1);
  if (!fits) refuse(mapping, node, "only a reduction over all spatial dimensions is supported");
  return input;
}

void map_mean(Mapping& mapping, const jit::Node& node) {
  append_global(mapping, node, "global_mean", GlobalMean{}, reduced_input(mapping, node));
}

void map_maximum(Mapping& mapping, const jit::Node& node) {
  need_first_output_only(mapping, node);
  append_global(mapping, node, "global_max", GlobalMax{}, reduced_input(mapping, node));
}

}  // namespace

std::span<const Rule> pooling_rules() {
  static constexpr std::array rules = {
      Rule{"aten::max_pool1d", map_max_pool},
      Rule{"aten::max_pool2d", map_max_pool},
      Rule{"aten::max_pool1d_with_indices", map_max_pool},
      Rule{"aten::max_pool2d_with_indices", map_max_pool},
      Rule{"aten::avg_pool1d", map_avg_pool},
      Rule{"aten::avg_pool2d", map_avg_pool},
      Rule{"aten::adaptive_avg_pool1d", map_adaptive_mean},
      Rule{"aten::adaptive_avg_pool2d", map_adaptive_mean},
      Rule{"aten::adaptive_max_pool1d", map_adaptive_max},
      Rule{"aten::adaptive_max_pool2d", map_adaptive_max},
      Rule{"aten::mean", map_mean},
      Rule{"aten::amax", map_maximum},
      Rule{"aten::max", map_maximum},
  };
  return rules;
}

}  // namespace podaq::capture_detail
