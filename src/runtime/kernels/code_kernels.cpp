#include "runtime/kernels/avx512/tasks.h"
#include "runtime/kernels/code_elements.h"
#include "runtime/kernels/conversion.h"
#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/pool.h"
#include "runtime/kernels/registry.h"

namespace podaq::runtime_detail::avx512 {

namespace {

bool accepts_max_pool(const NodeView& view) {
  return is_max(view.node.op) && view.has_codes();
}

// Global pooling gives values without positions, whose channels are neighbours in any layout.
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
    pool_code_maxima(task);
    task.input += pool.channels * pool.input_positions;
    task.output += output_size;
  }
  if (pool.input_qparams == pool.output_qparams) return;
  auto* codes = as<std::uint8_t>(operands.output);
  replace_codes(pool.table, codes, codes, operands.batch * output_size);
}

bool accepts_quantize(const NodeView& view) {
  return view.input_layout() == Layout::planar;
}

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

const Kernel code_max_pool = {.name = "avx512_code_max_pool",
                              .isa = Isa::avx512,
                              .accepts = accepts_max_pool,
                              .prepare = prepare_pool,
                              .run = run_max_pool};
const Kernel quantize = {.name = "avx512_quantize",
                         .isa = Isa::avx512,
                         .accepts = accepts_quantize,
                         .prepare = prepare_quantize,
                         .run = run_quantize};

}  // namespace podaq::runtime_detail::avx512
