#include "runtime/kernels/registry.h"

#include <array>

#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "runtime/isa.h"

namespace podaq::runtime_detail {

namespace {

// The sparse kernels, avx512::sparse_conv and sparse_linear, are no match of accepts alone: choose_kernels weighs them
// against the dense ones.
constexpr std::array conv_kernels = {
    &avx512::depthwise_conv, &amx::tile_conv,  &avx512::quad_conv, &avx512::float_window_conv, &avx512::float_conv,
    &avxvnni::quad_conv,     &avx2::quad_conv, &avx2::float_conv,  &reference::integer_conv,   &reference::float_conv};
constexpr std::array linear_kernels = {&amx::tile_linear,          &avx512::quad_linear,    &avx512::float_linear,
                                       &avxvnni::quad_linear,      &avx2::quad_linear,      &avx2::float_linear,
                                       &reference::integer_linear, &reference::float_linear};
constexpr std::array pool_kernels = {
    &avx512::planar_max_pool,   &avx512::code_max_pool,     &avx512::code_mean_pool,    &avx512::planar_global_mean,
    &avx512::float_max_pool,    &avx2::code_max_pool,       &avx2::code_mean_pool,      &reference::code_max_pool,
    &reference::code_mean_pool, &reference::float_max_pool, &reference::float_mean_pool};
constexpr std::array unary_kernels = {&avx512::code_table, &reference::table, &reference::float_unary};
constexpr std::array binary_kernels = {&avx512::code_binary, &avx2::code_binary, &reference::integer_binary,
                                       &reference::float_binary};
constexpr std::array batch_norm_kernels = {&reference::batch_norm};
constexpr std::array concat_kernels = {&avx512::code_concat, &reference::concat};
constexpr std::array rearrange_kernels = {&reference::rearrange};
constexpr std::array softmax_kernels = {&reference::softmax};
constexpr std::array quantize_kernels = {&avx512::quantize, &avx2::quantize, &reference::quantize};
constexpr std::array dequantize_kernels = {&avx512::dequantize, &avx2::dequantize, &reference::dequantize};

using KernelList = std::span<const Kernel* const>;

// One overload per op: a new op that has no kernels does not compile.
KernelList list_for(const Conv&) {
  return conv_kernels;
}
KernelList list_for(const Linear&) {
  return linear_kernels;
}
KernelList list_for(const BatchNorm&) {
  return batch_norm_kernels;
}
KernelList list_for(const Clamp&) {
  return unary_kernels;
}
KernelList list_for(const Affine&) {
  return unary_kernels;
}
KernelList list_for(const Activation&) {
  return unary_kernels;
}
KernelList list_for(const MaxPool&) {
  return pool_kernels;
}
KernelList list_for(const AvgPool&) {
  return pool_kernels;
}
KernelList list_for(const AdaptivePool&) {
  return pool_kernels;
}
KernelList list_for(const GlobalMean&) {
  return pool_kernels;
}
KernelList list_for(const GlobalMax&) {
  return pool_kernels;
}
KernelList list_for(const Add&) {
  return binary_kernels;
}
KernelList list_for(const Mul&) {
  return binary_kernels;
}
KernelList list_for(const Concat&) {
  return concat_kernels;
}
KernelList list_for(const Reshape&) {
  return rearrange_kernels;
}
KernelList list_for(const Dropout&) {
  return rearrange_kernels;
}
KernelList list_for(const Softmax&) {
  return softmax_kernels;
}
KernelList list_for(const Quantize&) {
  return quantize_kernels;
}
KernelList list_for(const Dequantize&) {
  return dequantize_kernels;
}

}  // namespace

std::span<const Kernel* const> kernels_of(const Op& op) {
  return std::visit([](const auto& alternative) { return list_for(alternative); }, op);
}

const Kernel& choose_kernel(const NodeView& view, Isa isa) {
  for (const Kernel* kernel : kernels_of(view.node.op))
    if (is_usable(kernel->isa, isa) && kernel->accepts(view)) return *kernel;
  throw Error(ErrorCode::unsupported, podaq::concat("node '", view.node.name, "' (", podaq::name_of(view.node.op),
                                                    "): the runtime has no kernel for it"));
}

}  // namespace podaq::runtime_detail
