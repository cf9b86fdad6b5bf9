#include "podaq/core/cpu.h"

#include <gtest/gtest.h>

namespace podaq {
namespace {

// A CPU with everything that podaq knows of, under an operating system that saves every register.
RawCpuid everything() {
  return {.highest_leaf = 0x20,
          .leaf1_ecx = (1U << 12) | (1U << 27) | (1U << 28),
          .leaf7_ebx = (1U << 5) | (1U << 16) | (1U << 17) | (1U << 30) | (1U << 31),
          .leaf7_ecx = (1U << 1) | (1U << 11),
          .leaf7_1_eax = 1U << 4,
          .leaf7_edx = (1U << 24) | (1U << 25),
          .enabled_states = 0x600E7,
          .tiles_permitted = true};
}

constexpr CpuFeatures all_features = {.avx2 = true,
                                      .fma = true,
                                      .avxvnni = true,
                                      .avx512f = true,
                                      .avx512bw = true,
                                      .avx512dq = true,
                                      .avx512vl = true,
                                      .avx512vnni = true,
                                      .avx512vbmi = true,
                                      .amxint8 = true};

TEST(Cpu, FindsEveryFeature) {
  EXPECT_EQ(features_of(everything()), all_features);
}

// Case C41: AVX-512F alone does not mean VNNI.
TEST(Cpu, Avx512WithoutVnni) {
  RawCpuid raw = everything();
  raw.leaf7_ecx = 1U << 1;
  CpuFeatures expected = all_features;
  expected.avx512vnni = false;
  EXPECT_EQ(features_of(raw), expected);
}

// The first CPUs with VNNI lack VBMI.
TEST(Cpu, VnniWithoutVbmi) {
  RawCpuid raw = everything();
  raw.leaf7_ecx = 1U << 11;
  CpuFeatures expected = all_features;
  expected.avx512vbmi = false;
  EXPECT_EQ(features_of(raw), expected);
}

// Case C41: the system saves x87, SSE and AVX, not the zmm registers.
TEST(Cpu, SystemThatDoesNotSaveWideRegisters) {
  RawCpuid raw = everything();
  raw.enabled_states = 7;
  EXPECT_EQ(features_of(raw), (CpuFeatures{.avx2 = true, .fma = true, .avxvnni = true}));
}

TEST(Cpu, EachZmmStateIsNeeded) {
  for (const int state : {5, 6, 7}) {
    RawCpuid raw = everything();
    raw.enabled_states &= ~(std::uint64_t{1} << state);
    const CpuFeatures features = features_of(raw);
    EXPECT_TRUE(features.avx2) << state;
    EXPECT_FALSE(features.avx512f || features.avx512bw || features.avx512dq || features.avx512vl ||
                 features.avx512vnni || features.avx512vbmi)
        << state;
  }
}

// AMX needs both its parts, both of its states, and the system's leave.
TEST(Cpu, AmxNeedsItsPartsItsStatesAndPermission) {
  for (const int bit : {24, 25}) {
    RawCpuid raw = everything();
    raw.leaf7_edx &= ~(1U << bit);
    EXPECT_FALSE(features_of(raw).amxint8) << "CPUID(7, 0).EDX bit " << bit;
  }
  for (const int state : {17, 18}) {
    RawCpuid raw = everything();
    raw.enabled_states &= ~(std::uint64_t{1} << state);
    EXPECT_FALSE(features_of(raw).amxint8) << "state " << state;
  }
  RawCpuid raw = everything();
  raw.tiles_permitted = false;
  EXPECT_FALSE(features_of(raw).amxint8);
  EXPECT_TRUE(features_of(raw).avx512vnni);
}

TEST(Cpu, SystemThatSavesNoVectors) {
  RawCpuid raw = everything();
  raw.enabled_states = 3;
  EXPECT_EQ(features_of(raw), CpuFeatures{});
  raw = everything();
  raw.leaf1_ecx &= ~(1U << 27);
  EXPECT_EQ(features_of(raw), CpuFeatures{});
}

TEST(Cpu, OldCpuWithoutLeaf7) {
  RawCpuid raw = everything();
  raw.highest_leaf = 6;
  EXPECT_EQ(features_of(raw), CpuFeatures{.fma = true});
  EXPECT_EQ(features_of(RawCpuid{}), CpuFeatures{});
}

#if defined(__x86_64__)
// The compiler's own detection is another reading of the same CPU.
TEST(Cpu, AgreesWithTheCompiler) {
  const CpuFeatures features = detect_cpu();
  EXPECT_EQ(features.avx2, __builtin_cpu_supports("avx2") != 0);
  EXPECT_EQ(features.fma, __builtin_cpu_supports("fma") != 0);
  EXPECT_EQ(features.avx512f, __builtin_cpu_supports("avx512f") != 0);
  EXPECT_EQ(features.avx512bw, __builtin_cpu_supports("avx512bw") != 0);
  EXPECT_EQ(features.avx512vnni, __builtin_cpu_supports("avx512vnni") != 0);
}
#endif

#if defined(__x86_64__)
TEST(CpuIdentity, NamesThisCpu) {
  const CpuIdentity cpu = identify_cpu();
  EXPECT_EQ(cpu.vendor.size(), 12U) << cpu.vendor;
  EXPECT_GT(cpu.family, 0U);
  EXPECT_LT(cpu.stepping, 16U);
  EXPECT_EQ(cpu.vendor, identify_cpu().vendor);
}
#endif

}  // namespace
}  // namespace podaq
