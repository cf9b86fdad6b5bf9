#include "core/sha256_blocks.h"

#include <bit>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace podaq::sha256_detail {
namespace {

constexpr std::size_t block_bytes = 64;

// FIPS 180-4 §4.2.2: the first 32 bits of the fractional parts of the cube roots of the first 64 primes.
alignas(16) constexpr std::array<std::uint32_t, 64> round_constants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t load_big_endian(const std::byte* bytes) {
  std::uint32_t word = 0;
  for (int i = 0; i < 4; ++i) word = (word << 8) | std::to_integer<std::uint32_t>(bytes[i]);
  return word;
}

std::array<std::uint32_t, 64> message_schedule(const std::byte* block) {
  std::array<std::uint32_t, 64> words{};
  for (std::size_t i = 0; i < 16; ++i) words[i] = load_big_endian(block + 4 * i);
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t early = words[i - 15];
    const std::uint32_t late = words[i - 2];
    const std::uint32_t sigma0 = std::rotr(early, 7) ^ std::rotr(early, 18) ^ (early >> 3);
    const std::uint32_t sigma1 = std::rotr(late, 17) ^ std::rotr(late, 19) ^ (late >> 10);
    words[i] = words[i - 16] + sigma0 + words[i - 7] + sigma1;
  }
  return words;
}

void absorb_block(State& state, const std::byte* block) {
  const auto words = message_schedule(block);
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t sum1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t sum0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t choice = (e & f) ^ (~e & g);
    const std::uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
    const std::uint32_t first = h + sum1 + choice + round_constants[i] + words[i];
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + sum0 + majority;
  }
  const State rotated = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state[i] += rotated[i];
}

#if defined(__x86_64__)
bool has_sha_instructions() {
  constexpr unsigned sse41_bit = 1U << 19;  // CPUID(1).ECX
  constexpr unsigned ssse3_bit = 1U << 9;   // CPUID(1).ECX
  constexpr unsigned sha_bit = 1U << 29;    // CPUID(7, 0).EBX
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & sse41_bit) == 0 || (ecx & ssse3_bit) == 0) return false;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & sha_bit) != 0;
}

__m128i load(const void* address) {
  return _mm_loadu_si128(static_cast<const __m128i*>(address));
}

// The instructions keep the state as two vectors, {f, e, b, a} and {h, g, d, c} from the lowest lane up, and do two
// rounds at a time: what was the first vector becomes the second.
__attribute__((target("sha,sse4.1,ssse3"))) void absorb_by_instructions(State& state,
                                                                        std::span<const std::byte> blocks) {
  const __m128i big_endian = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
  const __m128i dcba = load(&state[0]);
  const __m128i hgfe = load(&state[4]);
  constexpr int reversed_lanes = 0x1B;
  const __m128i abcd = _mm_shuffle_epi32(dcba, reversed_lanes);
  const __m128i efgh = _mm_shuffle_epi32(hgfe, reversed_lanes);
  __m128i feba = _mm_unpackhi_epi64(efgh, abcd);
  __m128i hgdc = _mm_unpacklo_epi64(efgh, abcd);
  for (; !blocks.empty(); blocks = blocks.subspan(block_bytes)) {
    const __m128i feba_before = feba;
    const __m128i hgdc_before = hgdc;
    __m128i words[4];  // The last 16 of the message schedule.
#pragma GCC unroll 16
    for (std::size_t i = 0; i < 16; ++i) {
      __m128i& four = words[i % 4];
      if (i < 4) {
        four = _mm_shuffle_epi8(load(blocks.data() + 16 * i), big_endian);
      } else {
        const __m128i last = words[(i + 3) % 4];
        const __m128i seven_before = _mm_alignr_epi8(last, words[(i + 2) % 4], 4);
        const __m128i partial = _mm_add_epi32(_mm_sha256msg1_epu32(four, words[(i + 1) % 4]), seven_before);
        four = _mm_sha256msg2_epu32(partial, last);
      }
      const __m128i terms = _mm_add_epi32(four, load(&round_constants[4 * i]));
      hgdc = _mm_sha256rnds2_epu32(hgdc, feba, terms);
      feba = _mm_sha256rnds2_epu32(feba, hgdc, _mm_unpackhi_epi64(terms, terms));
    }
    feba = _mm_add_epi32(feba, feba_before);
    hgdc = _mm_add_epi32(hgdc, hgdc_before);
  }
  const __m128i new_abcd = _mm_unpackhi_epi64(hgdc, feba);
  const __m128i new_efgh = _mm_unpacklo_epi64(hgdc, feba);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&state[0]), _mm_shuffle_epi32(new_abcd, reversed_lanes));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&state[4]), _mm_shuffle_epi32(new_efgh, reversed_lanes));
}
#endif

}  // namespace

void absorb_portably(State& state, std::span<const std::byte> blocks) {
  for (; !blocks.empty(); blocks = blocks.subspan(block_bytes)) absorb_block(state, blocks.data());
}

void absorb_blocks(State& state, std::span<const std::byte> blocks) {
#if defined(__x86_64__)
  static const bool has_instructions = has_sha_instructions();
  if (has_instructions) return absorb_by_instructions(state, blocks);
#endif
  absorb_portably(state, blocks);
}

}  // namespace podaq::sha256_detail
