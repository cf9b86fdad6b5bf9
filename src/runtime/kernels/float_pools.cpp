#include "runtime/kernels/avx512/tasks.h"
#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/pool.h"
#include "runtime/kernels/registry.h"

namespace podaq::runtime_detail::avx512 {

namespace {

// Gathering takes 32-bit distances.
constexpr std::size_t largest_stride = std::size_t{1} << 26;

bool accepts(const NodeView& view) {
  return is_max(view.node.op) && !view.has_codes();
}

void run(const Packed& packed, const Operands& operands) {
  const auto& pool = std::get<Pool>(packed);
  const bool has_regular_columns = pool.regular_stride >= 1 && pool.regular_stride <= largest_stride;
  pool_float_maxima({.input = as<float>(operands.inputs[0]),
                     .output = as<float>(operands.output),
                     .channels = operands.batch * pool.channels,
                     .input_positions = pool.input_positions,
                     .input_width = pool.input_width,
                     .row_spans = pool.rows.spans.data(),
                     .column_spans = pool.columns.spans.data(),
                     .rows = pool.rows.spans.size(),
                     .columns = pool.columns.spans.size(),
                     .row_step = pool.rows.step,
                     .column_step = pool.columns.step,
                     .first_regular = has_regular_columns ? pool.first_regular : 0,
                     .end_regular = has_regular_columns ? pool.end_regular : 0,
                     .stride = has_regular_columns ? pool.regular_stride : 1});
}

}  // namespace

const Kernel float_max_pool = {
    .name = "avx512_float_max_pool", .isa = Isa::avx512, .accepts = accepts, .prepare = prepare_pool, .run = run};

}  // namespace podaq::runtime_detail::avx512
