#pragma once

#include "runtime/kernel.h"

// Every kernel of the runtime, by instruction set. Each is defined in the file of its family.
namespace podaq::runtime_detail {

namespace reference {

extern const Kernel float_conv, integer_conv, float_linear, integer_linear, float_max_pool, float_mean_pool,
    code_max_pool, code_mean_pool, table, float_unary, float_binary, integer_binary, batch_norm, concat, rearrange,
    softmax, quantize, dequantize;

}  // namespace reference

namespace avx2 {

extern const Kernel float_conv, quad_conv, float_linear, quad_linear, code_max_pool, code_mean_pool, code_binary,
    quantize, dequantize;

}  // namespace avx2

namespace avxvnni {

extern const Kernel quad_conv, quad_linear;

}  // namespace avxvnni

namespace avx512 {

extern const Kernel float_conv, float_window_conv, quad_conv, depthwise_conv, sparse_conv, float_linear, quad_linear,
    sparse_linear, code_max_pool, planar_max_pool, code_mean_pool, planar_global_mean, float_max_pool, code_table,
    code_binary, code_concat, quantize, dequantize;

}  // namespace avx512

namespace amx {

extern const Kernel tile_conv, tile_linear;

}  // namespace amx

}  // namespace podaq::runtime_detail
