#include "quantize/histogram_rows.h"

#include <algorithm>
#include <limits>

namespace podaq::quantize_detail {

RowExtremes nonzero_extremes_row(const float* x, std::int64_t count) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  constexpr std::int64_t lanes = 16;  // apart, so that the loop vectorizes
  float smallest[lanes];
  float largest[lanes];
  std::fill_n(smallest, lanes, infinity);
  std::fill_n(largest, lanes, -infinity);
  const auto take = [&](std::int64_t i, std::int64_t lane) {
    const float low = x[i] == 0.0F ? infinity : x[i];
    const float high = x[i] == 0.0F ? -infinity : x[i];
    smallest[lane] = low < smallest[lane] ? low : smallest[lane];
    largest[lane] = high > largest[lane] ? high : largest[lane];
  };
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (std::int64_t lane = 0; lane < lanes; ++lane) take(i + lane, lane);
  for (; i < count; ++i) take(i, 0);
  return {.smallest = *std::min_element(smallest, smallest + lanes),
          .largest = *std::max_element(largest, largest + lanes)};
}

void bins_row(const float* __restrict x, std::int32_t* __restrict bin, std::int64_t count, float bins_per_unit,
              std::int32_t first, std::int32_t zero_bin) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float position = x[i] * bins_per_unit;  // exact unless it underflows
    const auto toward_zero = static_cast<std::int32_t>(position);
    const bool is_edge = static_cast<float>(toward_zero) == position && toward_zero != 0;
    const std::int32_t below = x[i] < 0.0F && !is_edge ? toward_zero - 1 : toward_zero;
    bin[i] = x[i] == 0.0F ? zero_bin : below - first;
  }
}

}  // namespace podaq::quantize_detail
