#include "runtime/isa.h"

#include <array>
#include <cstdlib>

#include "podaq/core/error.h"
#include "podaq/core/text.h"

namespace podaq {

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::reference:
      return "reference";
    case Isa::avx2:
      return "avx2";
    case Isa::avxvnni:
      return "avxvnni";
    case Isa::avx512:
      return "avx512";
    case Isa::amx:
      return "amx";
  }
  return "?";
}

namespace runtime_detail {

namespace {

constexpr std::array widest_first = {Isa::amx, Isa::avx512, Isa::avxvnni, Isa::avx2, Isa::reference};

}  // namespace

std::string_view missing_feature(Isa isa, const CpuFeatures& features) {
  if (isa == Isa::reference) return {};
  if (!features.avx2) return "AVX2";
  if (isa == Isa::avxvnni && !features.avxvnni) return "AVX-VNNI";
  if (isa < Isa::avx512) return {};
  if (!features.avx512f) return "AVX-512F";
  if (!features.avx512bw) return "AVX-512BW";
  if (!features.avx512dq) return "AVX-512DQ";
  if (!features.avx512vl) return "AVX-512VL";
  if (!features.avx512vnni) return "AVX-512VNNI";
  if (isa == Isa::amx && !features.amxint8) return "AMX-INT8";
  return {};
}

void require_isa(Isa isa, const CpuFeatures& features) {
  const std::string_view missing = missing_feature(isa, features);
  if (!missing.empty())
    throw Error(ErrorCode::unsupported, concat("the instruction set '", name_of(isa), "' needs ", missing,
                                               ", which this CPU or operating system does not offer; unset "
                                               "PODAQ_FORCE_ISA or choose a narrower one"));
}

Isa choose_isa(std::string_view forced, const CpuFeatures& features) {
  for (const Isa isa : widest_first) {
    if (forced.empty() ? missing_feature(isa, features).empty() : forced == name_of(isa)) {
      require_isa(isa, features);
      return isa;
    }
  }
  throw Error(ErrorCode::invalid_argument,
              concat("PODAQ_FORCE_ISA is '", forced, "'; it may be reference, avx2, avxvnni, avx512 or amx"));
}

}  // namespace runtime_detail

Isa selected_isa() {
  const char* forced = std::getenv("PODAQ_FORCE_ISA");
  return runtime_detail::choose_isa(forced == nullptr ? "" : forced, detect_cpu());
}

}  // namespace podaq
