#pragma once

#include "podaq/core/cpu.h"
#include "runtime/isa.h"

namespace podaq::test {

/// Whether the AVX-512 kernels run here.
inline bool has_avx512() {
  return runtime_detail::missing_feature(Isa::avx512, detect_cpu()).empty();
}

}  // namespace podaq::test
