#pragma once

#include "runtime/kernels/tasks.h"

// Included by files of several instruction sets, so nothing here may leave a symbol.
namespace podaq::runtime_detail {

/// The windows of the results from (row, column) on, those that are pooled into one result side by side.
template <std::size_t positions>
[[gnu::always_inline]] static inline void find_windows(const QuadTask& task, std::size_t row, std::size_t column,
                                                       const std::uint8_t* (&windows)[positions]) {
  if (task.pool_rows == 1 && positions <= (task.columns - column) * task.pool_columns) {
    windows[0] = task.input + row * task.row_stride + column * task.pool_columns * task.column_stride;
    for (std::size_t p = 1; p < positions; ++p) windows[p] = windows[p - 1] + task.column_stride;
    return;
  }
  std::size_t tap_row = 0;
  std::size_t tap_column = 0;
  for (std::size_t p = 0; p < positions; ++p) {
    windows[p] = task.input + (row * task.pool_rows + tap_row) * task.row_stride +
                 (column * task.pool_columns + tap_column) * task.column_stride;
    if (++tap_column < task.pool_columns) continue;
    tap_column = 0;
    if (++tap_row < task.pool_rows) continue;
    tap_row = 0;
    if (++column < task.columns) continue;
    column = 0;
    ++row;
  }
}

}  // namespace podaq::runtime_detail
