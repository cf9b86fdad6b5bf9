#include "podaq/numerics/elementwise.h"
#include "runtime/kernels/avx2/tasks.h"
#include "runtime/kernels/avx512/plane_tasks.h"
#include "runtime/kernels/avx512/tasks.h"
#include "runtime/kernels/code_elements.h"
#include "runtime/kernels/conversion.h"
#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/pool.h"
#include "runtime/kernels/registry.h"

namespace podaq::runtime_detail {

namespace {

// Global pooling gives values without positions, whose channels are neighbours in any layout.
bool accepts_max_pool(const NodeView& view) {
  return is_max(view.node.op) && view.has_codes() && !is_planar(view.input(), view.input_layout()) &&
         !is_planar(view.output(), view.output_layout());
}

using ReplaceCodes = void (*)(const CodeTable&, const std::uint8_t*, std::uint8_t*, std::size_t);

void rescale_where_needed(const Pool& pool, std::uint8_t* codes, std::size_t count, ReplaceCodes replace) {
  if (pool.input_qparams != pool.output_qparams) replace(pool.table, codes, codes, count);
}

template <void (*pool_maxima)(const CodeMaxPoolTask&), ReplaceCodes replace>
void run_max_pool(const Packed& packed, const Operands& operands) {
  const auto& pool = std::get<Pool>(packed);
  const std::size_t output_size = pool.channels * pool.rows.spans.size() * pool.columns.spans.size();
  CodeMaxPoolTask task{.input = as<std::uint8_t>(operands.inputs[0]),
                       .output = as<std::uint8_t>(operands.output),
                       .channels = pool.channels,
                       .input_width = pool.input_width,
                       .row_spans = pool.rows.spans.data(),
                       .column_spans = pool.columns.spans.data(),
                       .rows = pool.rows.spans.size(),
                       .columns = pool.columns.spans.size(),
                       .row_step = pool.rows.step,
                       .column_step = pool.columns.step};
  for (std::size_t sample = 0; sample < operands.batch; ++sample) {
    pool_maxima(task);
    task.input += pool.channels * pool.input_positions;
    task.output += output_size;
  }
  rescale_where_needed(pool, as<std::uint8_t>(operands.output), operands.batch * output_size, replace);
}

bool accepts_planar_max_pool(const NodeView& view) {
  return is_max(view.node.op) && view.has_codes() && is_planar(view.input(), view.input_layout()) &&
         (position_count(view.output().shape) == 1 || view.output_layout() == Layout::planar);
}

// Whether all windows of a single row are regular and tile it, so that channels may be joined into one long row.
bool rows_can_be_joined(const Pool& pool) {
  return pool.rows.spans.size() == 1 && pool.input_positions == pool.input_width && pool.first_regular == 0 &&
         pool.end_regular == pool.columns.spans.size() && pool.columns.spans[0].first == 0 &&
         pool.input_width == pool.regular_stride * pool.end_regular &&
         (pool.columns.spans[0].count - 1) * pool.columns.step < pool.regular_stride;
}

void run_planar_max_pool(const Packed& packed, const Operands& operands) {
  const auto& pool = std::get<Pool>(packed);
  const std::size_t planes = operands.batch * pool.channels;
  const std::size_t outputs = pool.rows.spans.size() * pool.columns.spans.size();
  const bool has_fast_stride = pool.regular_stride == 1 || pool.regular_stride == 2;
  avx512::PlanarMaxPoolTask task{.input = as<std::uint8_t>(operands.inputs[0]),
                                 .output = as<std::uint8_t>(operands.output),
                                 .channels = planes,
                                 .input_positions = pool.input_positions,
                                 .input_width = pool.input_width,
                                 .row_spans = pool.rows.spans.data(),
                                 .column_spans = pool.columns.spans.data(),
                                 .rows = pool.rows.spans.size(),
                                 .columns = pool.columns.spans.size(),
                                 .row_step = pool.rows.step,
                                 .column_step = pool.columns.step,
                                 .first_regular = has_fast_stride ? pool.first_regular : 0,
                                 .end_regular = has_fast_stride ? pool.end_regular : 0,
                                 .stride = pool.regular_stride};
  if (has_fast_stride && rows_can_be_joined(pool)) {
    task.channels = 1;
    task.columns = planes * outputs;
    task.end_regular = task.columns;
  }
  avx512::pool_planar_maxima(task);
  rescale_where_needed(pool, task.output, planes * outputs, avx512::replace_codes);
}

bool accepts_planar_global_mean(const NodeView& view) {
  return std::holds_alternative<GlobalMean>(view.node.op) && view.has_codes() &&
         is_planar(view.input(), view.input_layout());
}

void run_planar_global_mean(const Packed& packed, const Operands& operands) {
  const auto& pool = std::get<Pool>(packed);
  const QParams& input = pool.input_qparams;
  const QParams& output = pool.output_qparams;
  const auto count = static_cast<std::int64_t>(pool.input_positions);
  const float multiplier = numerics::mean_multiplier(input.scale, output.scale, count);
  const std::uint8_t* plane = as<std::uint8_t>(operands.inputs[0]);
  for (std::size_t i = 0; i < operands.batch * pool.channels; ++i, plane += pool.input_positions) {
    const std::int64_t sum = avx512::sum_codes(plane, pool.input_positions) - count * input.zero_point;
    as<std::uint8_t>(operands.output)[i] =
        static_cast<std::uint8_t>(numerics::mean_code(static_cast<std::int32_t>(sum), multiplier, output.zero_point,
                                                      {.lowest = output.lowest, .highest = output.highest}));
  }
}

bool accepts_quantize(const NodeView& view) {
  return view.input_layout() == Layout::planar;
}

template <void (*quantize_floats)(const QuantizeTask&)>
void run_quantize(const Packed& packed, const Operands& operands) {
  const auto& conversion = std::get<Conversion>(packed);
  const std::size_t size = conversion.channels * conversion.positions;
  const QParams& q = conversion.qparams;
  QuantizeTask task{.input = as<float>(operands.inputs[0]),
                    .output = as<std::uint8_t>(operands.output),
                    .channels = conversion.channels,
                    .positions = conversion.positions,
                    .channel_stride = conversion.positions,
                    .interleaves = conversion.output.channel == 1 && conversion.positions > 1,
                    .inverse_scale = 1.0F / q.scale,
                    .zero_point = q.zero_point,
                    .lowest = q.lowest,
                    .highest = q.highest};
  for (std::size_t sample = 0; sample < operands.batch; ++sample) {
    quantize_floats(task);
    task.input += size;
    task.output += size;
  }
}

}  // namespace

const Kernel avx2::code_max_pool = {.name = "avx2_code_max_pool",
                                    .isa = Isa::avx2,
                                    .accepts = accepts_max_pool,
                                    .prepare = prepare_pool,
                                    .run = run_max_pool<avx2::pool_code_maxima, reference::replace_codes>};
const Kernel avx2::quantize = {.name = "avx2_quantize",
                               .isa = Isa::avx2,
                               .accepts = accepts_quantize,
                               .prepare = prepare_quantize,
                               .run = run_quantize<avx2::quantize_floats>};
const Kernel avx512::code_max_pool = {.name = "avx512_code_max_pool",
                                      .isa = Isa::avx512,
                                      .accepts = accepts_max_pool,
                                      .prepare = prepare_pool,
                                      .run = run_max_pool<avx512::pool_code_maxima, avx512::replace_codes>};
const Kernel avx512::planar_max_pool = {.name = "avx512_planar_max_pool",
                                        .isa = Isa::avx512,
                                        .accepts = accepts_planar_max_pool,
                                        .prepare = prepare_pool,
                                        .run = run_planar_max_pool};
const Kernel avx512::planar_global_mean = {.name = "avx512_planar_global_mean",
                                           .isa = Isa::avx512,
                                           .accepts = accepts_planar_global_mean,
                                           .prepare = prepare_pool,
                                           .run = run_planar_global_mean};
const Kernel avx512::quantize = {.name = "avx512_quantize",
                                 .isa = Isa::avx512,
                                 .accepts = accepts_quantize,
                                 .prepare = prepare_quantize,
                                 .run = run_quantize<avx512::quantize_floats>};

}  // namespace podaq::runtime_detail
