#pragma once

#include "runtime/kernels/tasks.h"

// The entry points of the AVX2 files.
namespace podaq::runtime_detail::avx2 {

/// The weights of each pair of neighbours in a quad must be such that no sum of two products leaves 16 bits.
void convolve_quad_lists(const QuadListTask& task);
void widen_codes(const WidenTask& task);
void convolve_floats(const FloatConvTask& task);
void multiply_floats(const FloatLinearTask& task);
void pool_code_maxima(const CodeMaxPoolTask& task);
void quantize_floats(const QuantizeTask& task);
void combine_codes(const CodeBinaryTask& task);
void average_codes(const CodeMeanTask& task);
void dequantize_codes(const DequantizeTask& task);

}  // namespace podaq::runtime_detail::avx2
