#include "runtime/kernels/pool.h"

#include <algorithm>
#include <limits>

#include "podaq/numerics/elementwise.h"
#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/registry.h"

namespace podaq::runtime_detail::reference {

namespace {

// Calls visit(input position) for each element of the window at output (row, column), row by row.
template <typename Visit>
void for_each_element(const Pool& pool, std::size_t row, std::size_t column, Visit visit) {
  const WindowSpan& rows = pool.rows.spans[row];
  const WindowSpan& columns = pool.columns.spans[column];
  for (std::size_t y = 0; y < rows.count; ++y)
    for (std::size_t x = 0; x < columns.count; ++x)
      visit((rows.first + y * pool.rows.step) * pool.input_width + columns.first + x * pool.columns.step);
}

// The number that a mean divides by.
std::size_t divisor(const Pool& pool, std::size_t row, std::size_t column) {
  if (pool.counted_padding != 0) return pool.counted_padding;
  return pool.rows.spans[row].count * pool.columns.spans[column].count;
}

// Calls reduce(input channel, row, column) for each output element and stores what it returns.
template <typename Element, typename Reduce>
void pool_all(const Pool& pool, const Operands& operands, Reduce reduce) {
  const std::size_t width = pool.columns.spans.size();
  const std::size_t output_positions = pool.rows.spans.size() * width;
  for (std::size_t sample = 0; sample < operands.batch; ++sample) {
    const Element* input = as<Element>(operands.inputs[0]) + sample * pool.channels * pool.input_positions;
    Element* output = as<Element>(operands.output) + sample * pool.channels * output_positions;
    for (std::size_t channel = 0; channel < pool.channels; ++channel)
      for (std::size_t position = 0; position < output_positions; ++position)
        output[channel * pool.output.channel + position * pool.output.position] =
            reduce(input + channel * pool.input.channel, position / width, position % width);
  }
}

void run_float_max(const Packed& packed, const Operands& operands) {
  const auto& pool = std::get<Pool>(packed);
  pool_all<float>(pool, operands, [&](const float* channel, std::size_t row, std::size_t column) {
    float largest = -std::numeric_limits<float>::infinity();
    for_each_element(pool, row, column, [&](std::size_t position) {
      const float x = channel[position * pool.input.position];
      if (x > largest || x != x) largest = x;  // a NaN wins, and stays: nothing compares greater
    });
    return largest;
  });
}

void run_float_mean(const Packed& packed, const Operands& operands) {
  const auto& pool = std::get<Pool>(packed);
  pool_all<float>(pool, operands, [&](const float* channel, std::size_t row, std::size_t column) {
    float sum = 0.0F;
    for_each_element(pool, row, column,
                     [&](std::size_t position) { sum = sum + channel[position * pool.input.position]; });
    return sum / static_cast<float>(divisor(pool, row, column));
  });
}

void run_code_max(const Packed& packed, const Operands& operands) {
  const auto& pool = std::get<Pool>(packed);
  pool_all<std::uint8_t>(pool, operands, [&](const std::uint8_t* channel, std::size_t row, std::size_t column) {
    std::uint8_t largest = 0;
    for_each_element(pool, row, column, [&](std::size_t position) {
      largest = std::max(largest, channel[position * pool.input.position]);
    });
    return pool.table[largest];
  });
}

void run_code_mean(const Packed& packed, const Operands& operands) {
  const auto& pool = std::get<Pool>(packed);
  const QParams& input = pool.input_qparams;
  const QParams& output = pool.output_qparams;
  pool_all<std::uint8_t>(pool, operands, [&](const std::uint8_t* channel, std::size_t row, std::size_t column) {
    std::int32_t sum = 0;
    for_each_element(pool, row, column,
                     [&](std::size_t position) { sum += channel[position * pool.input.position] - input.zero_point; });
    const auto count = static_cast<std::int64_t>(divisor(pool, row, column));
    const float multiplier = numerics::mean_multiplier(input.scale, output.scale, count);
    return static_cast<std::uint8_t>(
        numerics::mean_code(sum, multiplier, output.zero_point, {.lowest = output.lowest, .highest = output.highest}));
  });
}

}  // namespace

const Kernel float_max_pool = {
    .name = "float_max_pool",
    .isa = Isa::reference,
    .accepts = [](const NodeView& view) { return is_max(view.node.op) && !view.has_codes(); },
    .prepare = prepare_pool,
    .run = run_float_max};
const Kernel float_mean_pool = {
    .name = "float_mean_pool",
    .isa = Isa::reference,
    .accepts = [](const NodeView& view) { return !is_max(view.node.op) && !view.has_codes(); },
    .prepare = prepare_pool,
    .run = run_float_mean};
const Kernel code_max_pool = {.name = "code_max_pool",
                              .isa = Isa::reference,
                              .accepts = [](const NodeView& view) { return is_max(view.node.op) && view.has_codes(); },
                              .prepare = prepare_pool,
                              .run = run_code_max};
const Kernel code_mean_pool = {
    .name = "code_mean_pool",
    .isa = Isa::reference,
    .accepts = [](const NodeView& view) { return !is_max(view.node.op) && view.has_codes(); },
    .prepare = prepare_pool,
    .run = run_code_mean};

}  // namespace podaq::runtime_detail::reference
