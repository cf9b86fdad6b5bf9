#pragma once

#include "runtime/kernel.h"

namespace podaq::runtime_detail {

/// Tells a packed sparse convolution in which layouts its operands come: packing the weights does not depend on them.
void set_operand_layouts(SparseConv& conv, const NodeView& view);

}  // namespace podaq::runtime_detail
