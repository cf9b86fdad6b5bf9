#include <immintrin.h>

#include "runtime/kernels/avx512/sparse_tasks.h"

namespace podaq::runtime_detail::avx512 {

namespace {

constexpr std::size_t vectors = 4;  // of 16 accumulators each: one panel of one row

// See quads.cpp.
[[gnu::always_inline]] inline void dot_quads(__m512i& accumulator, __m512i codes, __m512i weights) {
  asm("vpdpbusd %2, %1, %0" : "+v"(accumulator) : "v"(codes), "v"(weights));
}

[[gnu::always_inline]] inline __m512i broadcast_word(const std::uint32_t* word) {
  return _mm512_set1_epi32(static_cast<int>(*word));
}

// One panel while it is computed.
struct Panel {
  std::size_t first = 0;  ///< Output position.
  __mmask64 positions = 0;
  const std::uint64_t* inside = nullptr;  ///< By tap; null where all are.
};

// Unpacking leaves the positions of each 16-byte lane in the order that the packs of the epilogue undo.
[[gnu::always_inline]] inline void store_pair(std::uint8_t* codes, __m512i first, __m512i second) {
  _mm512_store_si512(codes, _mm512_unpacklo_epi8(first, second));
  _mm512_store_si512(codes + panel_positions, _mm512_unpackhi_epi8(first, second));
}

void lay_out_interior_pairs(const std::uint8_t* input, const ElementPair* pairs, std::size_t count,
                            std::uint8_t* codes) {
  for (const ElementPair* const end = pairs + count; pairs != end; ++pairs, codes += pair_bytes)
    store_pair(codes, _mm512_loadu_si512(input + pairs->first.offset),
               _mm512_loadu_si512(input + pairs->second.offset));
}

void lay_out_border_pairs(const std::uint8_t* input, const std::uint64_t* inside, std::uint8_t outside,
                          const ElementPair* pairs, std::size_t count, std::uint8_t* codes) {
  const __m512i border = _mm512_set1_epi8(static_cast<char>(outside));
  for (const ElementPair* const end = pairs + count; pairs != end; ++pairs, codes += pair_bytes)
    store_pair(codes, _mm512_mask_loadu_epi8(border, inside[pairs->first.tap], input + pairs->first.offset),
               _mm512_mask_loadu_epi8(border, inside[pairs->second.tap], input + pairs->second.offset));
}

void lay_out_pairs(const SparseTask& task, const Panel& panel, const ElementPair* pairs, std::size_t count) {
  if (panel.inside == nullptr)
    lay_out_interior_pairs(task.input + panel.first, pairs, count, task.pair_codes);
  else
    lay_out_border_pairs(task.input + panel.first, panel.inside, task.outside, pairs, count, task.pair_codes);
}

// Adds one quad's products to the accumulators of `rows` rows.
template <std::size_t rows>
[[gnu::always_inline]] inline void add_quad(__m512i (&sums)[rows][vectors], const std::uint8_t* pair_codes,
                                            const std::uint32_t* quad) {
  const std::uint8_t* first = pair_codes + quad[0];
  const std::uint8_t* second = pair_codes + quad[1];
  const __m512i first_low = _mm512_load_si512(first);
  const __m512i first_high = _mm512_load_si512(first + panel_positions);
  const __m512i second_low = _mm512_load_si512(second);
  const __m512i second_high = _mm512_load_si512(second + panel_positions);
  const __m512i codes[vectors] = {
      _mm512_unpacklo_epi16(first_low, second_low), _mm512_unpackhi_epi16(first_low, second_low),
      _mm512_unpacklo_epi16(first_high, second_high), _mm512_unpackhi_epi16(first_high, second_high)};
#pragma GCC unroll 4
  for (std::size_t row = 0; row < rows; ++row) {
    const __m512i weights = broadcast_word(quad + 2 + row);
#pragma GCC unroll 4
    for (std::size_t v = 0; v < vectors; ++v) dot_quads(sums[row][v], codes[v], weights);
  }
}

// What all rows of a panel share, in registers: stores of codes could otherwise change it, as far as the compiler
// knows.
struct Shared {
  std::size_t positions = 0;
  const std::uint8_t* pair_codes = nullptr;
  std::int32_t* sums = nullptr;
  bool starts = true, finishes = true;   ///< Whether sums start from the bias and become outputs, or are handed on.
  std::uint8_t* output_codes = nullptr;  ///< At the panel's first position, as in the next two; null where not used.
  float* output_floats = nullptr;
  const std::uint8_t* residual = nullptr;
  __mmask64 mask = 0;
  __m512i zero_point, lowest, highest;
  __m512i residual_zero_point;
  __m512 residual_multiplier, minimum, maximum;
};

Shared shared_by_rows(const SparseTask& task, const Panel& panel) {
  const EpilogueTask& e = task.epilogue;
  return {.positions = task.positions,
          .pair_codes = task.pair_codes,
          .sums = task.sums,
          .output_codes = e.gives_codes ? static_cast<std::uint8_t*>(task.output) + panel.first : nullptr,
          .output_floats = e.gives_codes ? nullptr : static_cast<float*>(task.output) + panel.first,
          .residual = task.residual == nullptr ? nullptr : task.residual + panel.first,
          .mask = panel.positions,
          .zero_point = _mm512_set1_epi16(static_cast<short>(e.zero_point)),
          .lowest = _mm512_set1_epi8(static_cast<char>(e.lowest)),
          .highest = _mm512_set1_epi8(static_cast<char>(e.highest)),
          .residual_zero_point = _mm512_set1_epi32(e.residual_zero_point),
          .residual_multiplier = _mm512_set1_ps(e.residual_multiplier),
          .minimum = _mm512_set1_ps(e.minimum),
          .maximum = _mm512_set1_ps(e.maximum)};
}

// Adds the second operand's codes, which come in the accumulators' order.
[[gnu::always_inline]] inline void add_residual(const Shared& shared, std::size_t channel, __m512 (&scaled)[vectors]) {
  const __m512i codes = _mm512_maskz_loadu_epi8(shared.mask, shared.residual + channel * shared.positions);
  const __m512i zero = _mm512_setzero_si512();
  const __m512i low = _mm512_unpacklo_epi8(codes, zero);
  const __m512i high = _mm512_unpackhi_epi8(codes, zero);
  const __m512i wide[vectors] = {_mm512_unpacklo_epi16(low, zero), _mm512_unpackhi_epi16(low, zero),
                                 _mm512_unpacklo_epi16(high, zero), _mm512_unpackhi_epi16(high, zero)};
#pragma GCC unroll 4
  for (std::size_t v = 0; v < vectors; ++v) {
    const __m512 difference = _mm512_cvtepi32_ps(_mm512_sub_epi32(wide[v], shared.residual_zero_point));
    scaled[v] = _mm512_add_ps(scaled[v], _mm512_mul_ps(difference, shared.residual_multiplier));
  }
}

// The numbers stay within 32 bits, so limiting the codes after rounding is the same as limiting before.
[[gnu::always_inline]] inline void store_codes(const Shared& shared, std::size_t channel,
                                               const __m512 (&scaled)[vectors]) {
  const __m512i low = _mm512_packs_epi32(_mm512_cvtps_epi32(scaled[0]), _mm512_cvtps_epi32(scaled[1]));
  const __m512i high = _mm512_packs_epi32(_mm512_cvtps_epi32(scaled[2]), _mm512_cvtps_epi32(scaled[3]));
  const __m512i codes =
      _mm512_packus_epi16(_mm512_adds_epi16(low, shared.zero_point), _mm512_adds_epi16(high, shared.zero_point));
  const __m512i limited = _mm512_min_epu8(_mm512_max_epu8(codes, shared.lowest), shared.highest);
  _mm512_mask_storeu_epi8(shared.output_codes + channel * shared.positions, shared.mask, limited);
}

[[gnu::always_inline]] inline void store_floats(const Shared& shared, std::size_t channel,
                                                const __m512 (&results)[vectors]) {
  alignas(panel_positions) float row[panel_positions];
#pragma GCC unroll 4
  for (std::size_t v = 0; v < vectors; ++v) {
    // Both instructions return their second operand where it is NaN, as the reference does.
    const __m512 bounded = _mm512_min_ps(shared.maximum, _mm512_max_ps(shared.minimum, results[v]));
    _mm_store_ps(row + v * 4, _mm512_castps512_ps128(bounded));
    _mm_store_ps(row + v * 4 + 16, _mm512_extractf32x4_ps(bounded, 1));
    _mm_store_ps(row + v * 4 + 32, _mm512_extractf32x4_ps(bounded, 2));
    _mm_store_ps(row + v * 4 + 48, _mm512_extractf32x4_ps(bounded, 3));
  }
  float* output = shared.output_floats + channel * shared.positions;
#pragma GCC unroll 4
  for (std::size_t v = 0; v < vectors; ++v)
    _mm512_mask_storeu_ps(output + v * 16, static_cast<__mmask16>(shared.mask >> (v * 16)),
                          _mm512_load_ps(row + v * 16));
}

template <bool adds, bool gives_codes>
[[gnu::always_inline]] inline void finish_row(const Shared& shared, const SparseRow& row,
                                              const __m512i (&sums)[vectors]) {
  if (!shared.finishes) {
#pragma GCC unroll 4
    for (std::size_t v = 0; v < vectors; ++v)
      _mm512_store_si512(shared.sums + row.sums * panel_positions + v * 16, sums[v]);
    return;
  }
  const __m512 multiplier = _mm512_set1_ps(row.multiplier);
  __m512 scaled[vectors];
#pragma GCC unroll 4
  for (std::size_t v = 0; v < vectors; ++v) scaled[v] = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[v]), multiplier);
  if constexpr (adds) add_residual(shared, row.channel, scaled);
  if constexpr (gives_codes)
    store_codes(shared, row.channel, scaled);
  else
    store_floats(shared, row.channel, scaled);
}

[[gnu::always_inline]] inline __m512i first_sum(const Shared& shared, const SparseRow& row, std::size_t vector) {
  if (shared.starts) return _mm512_set1_epi32(row.bias);
  return _mm512_load_si512(shared.sums + row.sums * panel_positions + vector * 16);
}

// Where the program's streams have been read to.
struct Cursor {
  const std::uint32_t* quads = nullptr;
  const SparseRow* rows = nullptr;
};

// Computes `together` groups of a run, quad by quad in turn: the sums of few rows would otherwise wait for each other.
template <std::size_t rows, std::size_t together, bool adds, bool gives_codes>
[[gnu::always_inline]] inline Cursor compute_groups(const Shared& shared, std::size_t quads, Cursor cursor) {
  constexpr std::size_t quad_words = rows + 2;
  __m512i sums[together][rows][vectors];
#pragma GCC unroll 4
  for (std::size_t group = 0; group < together; ++group)
#pragma GCC unroll 4
    for (std::size_t row = 0; row < rows; ++row)
#pragma GCC unroll 4
      for (std::size_t v = 0; v < vectors; ++v)
        sums[group][row][v] = first_sum(shared, cursor.rows[group * rows + row], v);
  const std::uint32_t* const end = cursor.quads + quads * quad_words;
  for (const std::uint32_t* quad = cursor.quads; quad != end; quad += quad_words)
#pragma GCC unroll 4
    for (std::size_t group = 0; group < together; ++group)
      add_quad<rows>(sums[group], shared.pair_codes, quad + group * quads * quad_words);
#pragma GCC unroll 4
  for (std::size_t group = 0; group < together; ++group)
#pragma GCC unroll 4
    for (std::size_t row = 0; row < rows; ++row)
      finish_row<adds, gives_codes>(shared, cursor.rows[group * rows + row], sums[group][row]);
  return {.quads = cursor.quads + together * quads * quad_words, .rows = cursor.rows + together * rows};
}

template <std::size_t rows, bool adds, bool gives_codes>
Cursor compute_run(const Shared& shared_by_rows, const SparseRun& run, Cursor cursor) {
  constexpr std::size_t together = rows == 1 ? 2 : 1;
  const Shared shared = shared_by_rows;
  const std::size_t quads = run.quads;
  std::size_t left = run.groups;
  for (; left >= together; left -= together)
    cursor = compute_groups<rows, together, adds, gives_codes>(shared, quads, cursor);
  for (; left > 0; --left) cursor = compute_groups<rows, 1, adds, gives_codes>(shared, quads, cursor);
  return cursor;
}

template <bool adds, bool gives_codes>
Cursor compute_runs(const Shared& shared, const SparseRun* runs, std::size_t count, Cursor cursor) {
  for (std::size_t i = 0; i < count; ++i) switch (runs[i].rows) {
      case 1:
        cursor = compute_run<1, adds, gives_codes>(shared, runs[i], cursor);
        break;
      case 2:
        cursor = compute_run<2, adds, gives_codes>(shared, runs[i], cursor);
        break;
      case 3:
        cursor = compute_run<3, adds, gives_codes>(shared, runs[i], cursor);
        break;
      default:
        cursor = compute_run<most_joined_rows, adds, gives_codes>(shared, runs[i], cursor);
    }
  return cursor;
}

Cursor compute_block(const Shared& shared, const SparseRun* runs, std::size_t count, Cursor cursor) {
  const bool adds = shared.residual != nullptr;
  if (shared.output_codes != nullptr)
    return adds ? compute_runs<true, true>(shared, runs, count, cursor)
                : compute_runs<false, true>(shared, runs, count, cursor);
  return adds ? compute_runs<true, false>(shared, runs, count, cursor)
              : compute_runs<false, false>(shared, runs, count, cursor);
}

// Whether every element of a full panel lies inside the input.
bool is_interior(const std::uint64_t* inside, std::size_t taps) {
  for (std::size_t tap = 0; tap < taps; ++tap)
    if (inside[tap] != ~std::uint64_t{0}) return false;
  return true;
}

void compute_panel(const SparseTask& task, const Panel& panel) {
  const ElementPair* pairs = task.pairs;
  const SparseRun* runs = task.runs;
  Shared shared = shared_by_rows(task, panel);
  Cursor cursor{.quads = task.quads, .rows = task.rows};
  for (std::size_t i = 0; i < task.block_count; ++i) {
    const SparseBlock& block = task.blocks[i];
    lay_out_pairs(task, panel, pairs, block.pairs);
    shared.starts = block.is_first;
    shared.finishes = block.is_last;
    cursor = compute_block(shared, runs, block.runs, cursor);
    pairs += block.pairs;
    runs += block.runs;
  }
}

}  // namespace

void convolve_sparse(const SparseTask& task) {
  for (std::size_t first = 0; first < task.positions; first += panel_positions) {
    const std::size_t left = task.positions - first;
    Panel panel{.first = first,
                .positions = left >= panel_positions ? ~__mmask64{0} : (__mmask64{1} << left) - 1,
                .inside = nullptr};
    if (task.inside != nullptr) {
      const std::uint64_t* inside = task.inside + first / panel_positions * task.taps;
      if (!is_interior(inside, task.taps)) panel.inside = inside;
    }
    compute_panel(task, panel);
  }
}

}  // namespace podaq::runtime_detail::avx512
