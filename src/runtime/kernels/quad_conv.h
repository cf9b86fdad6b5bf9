#pragma once

#include "runtime/kernel.h"
#include "runtime/kernels/absorption.h"
#include "runtime/kernels/avx512/tasks.h"

namespace podaq::runtime_detail::avx512 {

/// What all groups and samples of a node share.
[[nodiscard]] QuadTask quad_task(const QuadConv& conv, const Operands& operands);

/// Whether the dense convolution can absorb a max pooling over such windows.
[[nodiscard]] bool can_pool(const PoolWindow& window);

/// Packs a node that holds Linear over one row of codes.
/// @param quads_multiple  The inputs are padded to this many quads, with weights of 0.
[[nodiscard]] QuadConv prepare_quad_linear(const NodeView& view, std::size_t quads_multiple);

/// Computes a batch of a packed linear.
void run_quad_linear(const QuadConv& linear, const Operands& operands);

/// Makes a packed linear read the values that `producer`, a flatten, only puts in another order; false where it is
/// none.
[[nodiscard]] bool absorb_flatten(QuadConv& linear, const NodeView& producer);

}  // namespace podaq::runtime_detail::avx512
