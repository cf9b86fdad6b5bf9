#pragma once

#include "runtime/kernels/tasks.h"

// The entry points of the AVX-512 files, but those on planes and sparse weights.
namespace podaq::runtime_detail::avx512 {

void convolve_quads(const QuadTask& task);

/// Turns one sample's sums of a linear, bias included and padded to 16, into its outputs.
/// @param sample  Which of the task's samples.
void finish_sums(const QuadTask& task, const std::int32_t* sums, std::size_t sample);

void convolve_floats(const FloatConvTask& task);
void multiply_floats(const FloatLinearTask& task);
void pool_code_maxima(const CodeMaxPoolTask& task);
void pool_float_maxima(const FloatMaxPoolTask& task);
void quantize_floats(const QuantizeTask& task);
void map_codes(const TableTask& task);
void combine_codes(const CodeBinaryTask& task);
void average_codes(const CodeMeanTask& task);
void dequantize_codes(const DequantizeTask& task);

}  // namespace podaq::runtime_detail::avx512
