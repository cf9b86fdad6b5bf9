#pragma once

#include <string_view>

#include "podaq/core/cpu.h"
#include "podaq/runtime/model.h"

namespace podaq::runtime_detail {

/// The first feature that `isa` needs and `features` lacks; empty where it can run.
[[nodiscard]] std::string_view missing_feature(Isa isa, const CpuFeatures& features);

/// Throws Error(unsupported) naming the missing feature unless `isa` can run on `features`.
void require_isa(Isa isa, const CpuFeatures& features);

/// The instruction set named `forced` (reference | avx2 | avxvnni | avx512 | amx), or, where that is empty, the widest
/// that `features` allow. Throws Error(unsupported) naming the missing feature, Error(invalid_argument) for another
/// word.
[[nodiscard]] Isa choose_isa(std::string_view forced, const CpuFeatures& features);

/// Whether a kernel written for `kernel` may be used in a plan for `plan`: every wider CPU also runs what is narrower,
/// but AVX-VNNI is no part of AVX-512.
[[nodiscard]] constexpr bool is_usable(Isa kernel, Isa plan) {
  return kernel == plan || (kernel < plan && kernel != Isa::avxvnni);
}

}  // namespace podaq::runtime_detail
