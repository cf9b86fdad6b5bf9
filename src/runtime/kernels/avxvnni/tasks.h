#pragma once

#include "runtime/kernels/tasks.h"

// The entry point of the AVX-VNNI files.
namespace podaq::runtime_detail::avxvnni {

void convolve_quad_lists(const QuadListTask& task);

}  // namespace podaq::runtime_detail::avxvnni
