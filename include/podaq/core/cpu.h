#pragma once

#include <cstdint>
#include <string>

namespace podaq {

/// What CPUID and XGETBV say on x86, as read. All zero on other CPUs.
struct RawCpuid {
  std::uint32_t highest_leaf = 0;    ///< CPUID(0).EAX.
  std::uint32_t leaf1_ecx = 0;       ///< CPUID(1).ECX.
  std::uint32_t leaf7_ebx = 0;       ///< CPUID(7, 0).EBX.
  std::uint32_t leaf7_ecx = 0;       ///< CPUID(7, 0).ECX.
  std::uint32_t leaf7_1_eax = 0;     ///< CPUID(7, 1).EAX.
  std::uint32_t leaf7_edx = 0;       ///< CPUID(7, 0).EDX.
  std::uint64_t enabled_states = 0;  ///< XCR0: the registers that the operating system saves; 0 without OSXSAVE.
  bool tiles_permitted = false;      ///< Whether Linux lets this process use the tile registers (arch_prctl).
};

/// The x86 instruction sets that can be used here: the CPU has them and the operating system saves their registers.
struct CpuFeatures {
  bool avx2 = false;        ///< AVX2.
  bool fma = false;         ///< FMA3.
  bool avxvnni = false;     ///< AVX-VNNI.
  bool avx512f = false;     ///< AVX-512 F.
  bool avx512bw = false;    ///< AVX-512 BW.
  bool avx512dq = false;    ///< AVX-512 DQ.
  bool avx512vl = false;    ///< AVX-512 VL.
  bool avx512vnni = false;  ///< AVX-512 VNNI.
  bool avx512vbmi = false;  ///< AVX-512 VBMI.
  bool amxint8 = false;     ///< AMX-TILE and AMX-INT8.

  friend bool operator==(const CpuFeatures&, const CpuFeatures&) = default;
};

/// The usable instruction sets that `raw` describes (Intel SDM volume 1, §14.3, §15.2; volume 2, CPUID).
[[nodiscard]] CpuFeatures features_of(const RawCpuid& raw);

/// Asks the CPU that this runs on, and, where it has tile registers, Linux for leave to use them: it is granted to the
/// whole process and stays; only signal stacks of more than 11 KiB of room are large enough from then on.
[[nodiscard]] RawCpuid read_cpuid();

/// The usable instruction sets of the CPU that this runs on.
[[nodiscard]] CpuFeatures detect_cpu();

/// Which CPU this is: enough to tell one whose kernels take other times. All empty or 0 on other CPUs than x86.
struct CpuIdentity {
  std::string vendor;          ///< Such as "GenuineIntel".
  std::string name;            ///< As sold, such as "Intel(R) Xeon(R) Processor"; empty where the CPU does not say.
  std::uint32_t family = 0;    ///< Extended family included.
  std::uint32_t model = 0;     ///< Extended model included.
  std::uint32_t stepping = 0;  ///< The revision.
};

/// Asks the CPU that this runs on (Intel SDM volume 2, CPUID leaves 0, 1 and 0x80000002 to 0x80000004).
[[nodiscard]] CpuIdentity identify_cpu();

}  // namespace podaq
