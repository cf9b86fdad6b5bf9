#pragma once

#include <cstdint>

// Loops over consecutive floats, compiled apart from LibTorch with the flags that let them vectorize.
namespace podaq::quantize_detail {

/// The smallest and largest of numbers; infinity and -infinity of none.
struct RowExtremes {
  float smallest = 0.0F;
  float largest = 0.0F;
};

/// The extremes of finite x[i], zeros left out.
RowExtremes nonzero_extremes_row(const float* x, std::int64_t count);

/// bin[i] = floor(x[i] / width) - first, or zero_bin where x[i] is 0. The width is a power of two, and every bin fits.
void bins_row(const float* x, std::int32_t* bin, std::int64_t count, float bins_per_unit, std::int32_t first,
              std::int32_t zero_bin);

}  // namespace podaq::quantize_detail
