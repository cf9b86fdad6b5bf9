#include "podaq/core/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace podaq {
namespace {

constexpr bool has_bit(std::uint64_t word, int bit) {
  return ((word >> bit) & 1) != 0;
}

// CPUID(1).ECX.
constexpr int fma_bit = 12;
constexpr int osxsave_bit = 27;
constexpr int avx_bit = 28;
// CPUID(7, 0).EBX.
constexpr int avx2_bit = 5;
constexpr int avx512f_bit = 16;
constexpr int avx512dq_bit = 17;
constexpr int avx512bw_bit = 30;
constexpr int avx512vl_bit = 31;
// CPUID(7, 0).ECX.
constexpr int avx512vbmi_bit = 1;
constexpr int avx512vnni_bit = 11;
// CPUID(7, 0).EDX.
constexpr int amx_tile_bit = 24;
constexpr int amx_int8_bit = 25;
// CPUID(7, 1).EAX.
constexpr int avxvnni_bit = 4;
// XCR0: SSE and AVX halves of the ymm registers; mask registers and both parts of the zmm registers.
constexpr std::uint64_t ymm_states = 0x06;
constexpr std::uint64_t zmm_states = 0xE6;
// XCR0: the tiles' configuration and the tiles.
constexpr std::uint64_t tile_states = 0x60000;

#if defined(__x86_64__)
// Four characters of a text that ends at the first 0.
void append_characters(std::string& text, std::uint32_t word) {
  for (int shift = 0; shift < 32; shift += 8)
    if (const char character = static_cast<char>((word >> shift) & 0xFF); character != '\0') text += character;
}

// Linux saves tiles only for processes that asked for them, since they are large.
bool request_tiles() {
#if defined(__linux__)
  constexpr long request_permission = 0x1023;  // ARCH_REQ_XCOMP_PERM of <asm/prctl.h>, which older headers lack
  constexpr long tile_data = 18;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return false;
#endif
}
#endif

}  // namespace

CpuFeatures features_of(const RawCpuid& raw) {
  const bool saves_states = has_bit(raw.leaf1_ecx, osxsave_bit);
  const bool saves_ymm = saves_states && (raw.enabled_states & ymm_states) == ymm_states;
  const bool saves_zmm = saves_states && (raw.enabled_states & zmm_states) == zmm_states;
  const bool avx = saves_ymm && has_bit(raw.leaf1_ecx, avx_bit);
  const bool has_leaf7 = raw.highest_leaf >= 7;

  CpuFeatures features;
  features.fma = avx && has_bit(raw.leaf1_ecx, fma_bit);
  features.avx2 = avx && has_leaf7 && has_bit(raw.leaf7_ebx, avx2_bit);
  features.avxvnni = features.avx2 && has_bit(raw.leaf7_1_eax, avxvnni_bit);
  features.avx512f = avx && saves_zmm && has_leaf7 && has_bit(raw.leaf7_ebx, avx512f_bit);
  features.avx512bw = features.avx512f && has_bit(raw.leaf7_ebx, avx512bw_bit);
  features.avx512dq = features.avx512f && has_bit(raw.leaf7_ebx, avx512dq_bit);
  features.avx512vl = features.avx512f && has_bit(raw.leaf7_ebx, avx512vl_bit);
  features.avx512vnni = features.avx512f && has_bit(raw.leaf7_ecx, avx512vnni_bit);
  features.avx512vbmi = features.avx512bw && has_bit(raw.leaf7_ecx, avx512vbmi_bit);
  const bool saves_tiles = saves_states && (raw.enabled_states & tile_states) == tile_states && raw.tiles_permitted;
  features.amxint8 =
      has_leaf7 && saves_tiles && has_bit(raw.leaf7_edx, amx_tile_bit) && has_bit(raw.leaf7_edx, amx_int8_bit);
  return features;
}

RawCpuid read_cpuid() {
  RawCpuid raw;
#if defined(__x86_64__)
  std::uint32_t eax = 0;
  std::uint32_t ebx = 0;
  std::uint32_t ecx = 0;
  std::uint32_t edx = 0;
  raw.highest_leaf = __get_cpuid_max(0, nullptr);
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0) raw.leaf1_ecx = ecx;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0) {
    const std::uint32_t highest_subleaf = eax;
    raw.leaf7_ebx = ebx;
    raw.leaf7_ecx = ecx;
    raw.leaf7_edx = edx;
    if (highest_subleaf >= 1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0) raw.leaf7_1_eax = eax;
  }
  if (has_bit(raw.leaf1_ecx, osxsave_bit)) {
    // XGETBV by hand: the intrinsic would need this file compiled for wider instructions than the baseline.
    std::uint32_t low = 0;
    std::uint32_t high = 0;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    raw.enabled_states = (std::uint64_t{high} << 32) | low;
  }
  if ((raw.enabled_states & tile_states) == tile_states) raw.tiles_permitted = request_tiles();
#endif
  return raw;
}

CpuFeatures detect_cpu() {
  return features_of(read_cpuid());
}

CpuIdentity identify_cpu() {
  CpuIdentity cpu;
#if defined(__x86_64__)
  std::uint32_t words[4] = {};
  if (__get_cpuid(0, &words[0], &words[1], &words[3], &words[2]) == 0) return cpu;
  for (int i = 1; i < 4; ++i) append_characters(cpu.vendor, words[i]);
  __get_cpuid(1, &words[0], &words[1], &words[2], &words[3]);
  const std::uint32_t signature = words[0];
  const std::uint32_t family = (signature >> 8) & 0xF;
  cpu.stepping = signature & 0xF;
  cpu.family = family == 0xF ? family + ((signature >> 20) & 0xFF) : family;
  cpu.model = ((signature >> 4) & 0xF) | (family == 0x6 || family == 0xF ? (signature >> 12) & 0xF0 : 0);
  constexpr std::uint32_t first_name_leaf = 0x80000002;
  for (std::uint32_t leaf = first_name_leaf; leaf < first_name_leaf + 3; ++leaf)
    if (__get_cpuid(leaf, &words[0], &words[1], &words[2], &words[3]) != 0)
      for (const std::uint32_t word : words) append_characters(cpu.name, word);
#endif
  return cpu;
}

}  // namespace podaq
