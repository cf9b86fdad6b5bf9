#include "runtime/kernels/code_elements.h"

#include <cstring>

#include "podaq/numerics/elementwise.h"
#include "runtime/kernels/avx2/tasks.h"
#include "runtime/kernels/avx512/tasks.h"
#include "runtime/kernels/conversion.h"
#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/pool.h"
#include "runtime/kernels/registry.h"

namespace podaq::runtime_detail {

namespace {

bool all_codes(const NodeView& view) {
  return view.has_codes();
}

void run_table(const Packed& packed, const Operands& operands) {
  const auto& table = std::get<Table>(packed);
  avx512::replace_codes(table.codes, as<std::uint8_t>(operands.inputs[0]), as<std::uint8_t>(operands.output),
                        operands.batch * table.size);
}

template <void (*combine_codes)(const CodeBinaryTask&)>
void run_binary(const Packed& packed, const Operands& operands) {
  const auto& binary = std::get<IntegerBinary>(packed);
  combine_codes({.first = as<std::uint8_t>(operands.inputs[0]),
                 .second = as<std::uint8_t>(operands.inputs[1]),
                 .output = as<std::uint8_t>(operands.output),
                 .count = operands.batch * binary.size,
                 .multiplies = binary.multiplies,
                 .first_zero_point = binary.first_zero_point,
                 .second_zero_point = binary.second_zero_point,
                 .first_multiplier = binary.first_multiplier,
                 .second_multiplier = binary.second_multiplier,
                 .range = {.zero_point = binary.zero_point, .lowest = binary.lowest, .highest = binary.highest}});
}

// Global pooling gives values without positions, whose channels are neighbours in any layout.
bool accepts_mean(const NodeView& view) {
  const bool one_channel = channel_count(view.input().shape) == 1;
  return !is_max(view.node.op) && view.has_codes() && (view.input_layout() == Layout::channels_last || one_channel);
}

template <void (*average_codes)(const CodeMeanTask&)>
void run_mean(const Packed& packed, const Operands& operands) {
  const auto& pool = std::get<Pool>(packed);
  const QParams& output = pool.output_qparams;
  CodeMeanTask task{.channels = pool.channels,
                    .input_width = pool.input_width,
                    .row_step = pool.rows.step,
                    .column_step = pool.columns.step,
                    .input_zero_point = pool.input_qparams.zero_point,
                    .range = {.zero_point = output.zero_point, .lowest = output.lowest, .highest = output.highest}};
  task.output = as<std::uint8_t>(operands.output);
  for (std::size_t sample = 0; sample < operands.batch; ++sample) {
    task.input = as<std::uint8_t>(operands.inputs[0]) + sample * pool.channels * pool.input_positions;
    for (const WindowSpan& rows : pool.rows.spans)
      for (const WindowSpan& columns : pool.columns.spans) {
        const std::size_t count = pool.counted_padding != 0 ? pool.counted_padding : rows.count * columns.count;
        task.rows = rows;
        task.columns = columns;
        task.multiplier =
            numerics::mean_multiplier(pool.input_qparams.scale, output.scale, static_cast<std::int64_t>(count));
        average_codes(task);
        task.output += pool.channels;
      }
  }
}

bool accepts_dequantize(const NodeView& view) {
  return view.has_codes() && (view.input_layout() == view.output_layout() || position_count(view.input().shape) == 1);
}

template <void (*dequantize_codes)(const DequantizeTask&)>
void run_dequantize(const Packed& packed, const Operands& operands) {
  const auto& conversion = std::get<Conversion>(packed);
  dequantize_codes({.input = as<std::uint8_t>(operands.inputs[0]),
                    .output = as<float>(operands.output),
                    .count = operands.batch * conversion.channels * conversion.positions,
                    .zero_point = conversion.qparams.zero_point,
                    .scale = conversion.qparams.scale});
}

void run_concat(const Packed& packed, const Operands& operands) {
  const auto& concat = std::get<ConcatPacked>(packed);
  std::byte* output = operands.output;
  for (std::size_t repeat = 0; repeat < operands.batch * concat.outer; ++repeat)
    for (std::size_t i = 0; i < concat.block_bytes.size(); ++i) {
      const std::size_t bytes = concat.block_bytes[i];
      const std::byte* block = operands.inputs[i] + repeat * bytes;
      if (const auto& table = concat.tables[i])
        avx512::replace_codes(*table, as<std::uint8_t>(block), as<std::uint8_t>(output), bytes);
      else
        std::memcpy(output, block, bytes);
      output += bytes;
    }
}

}  // namespace

void avx512::replace_codes(const CodeTable& table, const std::uint8_t* input, std::uint8_t* output, std::size_t count) {
  map_codes({.input = input, .output = output, .count = count, .table = table.data()});
}

const Kernel avx2::code_binary = {.name = "avx2_code_binary",
                                  .isa = Isa::avx2,
                                  .accepts = all_codes,
                                  .prepare = prepare_integer_binary,
                                  .run = run_binary<avx2::combine_codes>,
                                  .runs_in_place = is_elementwise};
const Kernel avx2::code_mean_pool = {.name = "avx2_code_mean_pool",
                                     .isa = Isa::avx2,
                                     .accepts = accepts_mean,
                                     .prepare = prepare_pool,
                                     .run = run_mean<avx2::average_codes>};
const Kernel avx2::dequantize = {.name = "avx2_dequantize",
                                 .isa = Isa::avx2,
                                 .accepts = accepts_dequantize,
                                 .prepare = prepare_dequantize,
                                 .run = run_dequantize<avx2::dequantize_codes>};
const Kernel avx512::code_table = {.name = "avx512_table",
                                   .isa = Isa::avx512,
                                   .accepts = all_codes,
                                   .prepare = prepare_table,
                                   .run = run_table,
                                   .runs_in_place = is_elementwise};
const Kernel avx512::code_binary = {.name = "avx512_code_binary",
                                    .isa = Isa::avx512,
                                    .accepts = all_codes,
                                    .prepare = prepare_integer_binary,
                                    .run = run_binary<avx512::combine_codes>,
                                    .runs_in_place = is_elementwise};
const Kernel avx512::code_mean_pool = {.name = "avx512_code_mean_pool",
                                       .isa = Isa::avx512,
                                       .accepts = accepts_mean,
                                       .prepare = prepare_pool,
                                       .run = run_mean<avx512::average_codes>};
const Kernel avx512::code_concat = {.name = "avx512_code_concat",
                                    .isa = Isa::avx512,
                                    .accepts = all_codes,
                                    .prepare = prepare_concat,
                                    .run = run_concat};
const Kernel avx512::dequantize = {.name = "avx512_dequantize",
                                   .isa = Isa::avx512,
                                   .accepts = accepts_dequantize,
                                   .prepare = prepare_dequantize,
                                   .run = run_dequantize<avx512::dequantize_codes>};

}  // namespace podaq::runtime_detail
