#include "runtime/kernels/avx512/sparse_tasks.h"
#include "runtime/kernels/avx512/sparse_vectors.h"

namespace podaq::runtime_detail::avx512 {

namespace {

// See quads.cpp. One statement for a row: between several, g++ 12 would move accumulators from register to register.
template <typename Vector>
[[gnu::always_inline]] inline void dot_quads(typename Vector::Integers (&sums)[Vector::sum_vectors],
                                             const typename Vector::Integers (&codes)[Vector::sum_vectors],
                                             typename Vector::Integers weights) {
  if constexpr (Vector::sum_vectors == 1)
    asm("vpdpbusd %2, %1, %0" : "+v"(sums[0]) : "v"(codes[0]), "v"(weights));
  else
    asm("vpdpbusd %8, %4, %0\n\t"
        "vpdpbusd %8, %5, %1\n\t"
        "vpdpbusd %8, %6, %2\n\t"
        "vpdpbusd %8, %7, %3"
        : "+&v"(sums[0]), "+&v"(sums[1]), "+&v"(sums[2]), "+v"(sums[3])
        : "v"(codes[0]), "v"(codes[1]), "v"(codes[2]), "v"(codes[3]), "v"(weights));
}

// The bytes of four vectors, position by position. Unpacking leaves the positions of each 16-byte lane in the order
// that the packs of the epilogue undo.
template <typename Vector>
[[gnu::always_inline]] inline void interleave(typename Vector::Integers (&quad)[Vector::sum_vectors],
                                              typename Vector::Integers a, typename Vector::Integers b,
                                              typename Vector::Integers c, typename Vector::Integers d) {
  const auto low_ab = Vector::unpack_low_bytes(a, b);
  const auto low_cd = Vector::unpack_low_bytes(c, d);
  quad[0] = Vector::unpack_low_half_words(low_ab, low_cd);
  if constexpr (Vector::sum_vectors > 1) {
    const auto high_ab = Vector::unpack_high_bytes(a, b);
    const auto high_cd = Vector::unpack_high_bytes(c, d);
    quad[1] = Vector::unpack_high_half_words(low_ab, low_cd);
    quad[2] = Vector::unpack_low_half_words(high_ab, high_cd);
    quad[3] = Vector::unpack_high_half_words(high_ab, high_cd);
  }
}

template <typename Vector>
[[gnu::always_inline]] inline void load_quad(typename Vector::Integers (&quad)[Vector::sum_vectors],
                                             const std::uint8_t* input, const std::uint32_t* offsets) {
  const auto a = Vector::load(input + offsets[0]);
  const auto b = Vector::load(input + offsets[1]);
  const auto c = Vector::load(input + offsets[2]);
  const auto d = Vector::load(input + offsets[3]);
  interleave<Vector>(quad, a, b, c, d);
}

// Adds one quad's products to the accumulators of `rows` rows.
template <typename Vector, std::size_t rows>
[[gnu::always_inline]] inline void add_quad(typename Vector::Integers (&sums)[rows][Vector::sum_vectors],
                                            const std::uint8_t* input, const std::uint32_t* words) {
  typename Vector::Integers quad[Vector::sum_vectors];
  load_quad<Vector>(quad, input, words);
#pragma GCC unroll 4
  for (std::size_t row = 0; row < rows; ++row)
    dot_quads<Vector>(sums[row], quad, Vector::words(static_cast<std::int32_t>(words[quad_elements + row])));
}

// One panel while it is computed.
template <typename Vector>
struct Panel {
  const std::uint8_t* input = nullptr;
  std::size_t positions = 0;             ///< From one output channel to the next.
  std::size_t count = 0;                 ///< Positions of the panel: as many as a vector has bytes, or fewer.
  std::uint8_t* output_codes = nullptr;  ///< At the panel's first position, as in the next two; null where not used.
  float* output_floats = nullptr;
  const std::uint8_t* residual = nullptr;
  typename Vector::Integers zero_point, lowest, highest, residual_zero_point;
  typename Vector::Floats residual_multiplier, minimum, maximum;
};

template <typename Vector>
Panel<Vector> panel_of(const SparseTask& task, std::size_t first, const std::uint8_t* input) {
  const EpilogueTask& e = task.epilogue;
  const std::size_t left = task.positions - first;
  return {.input = input,
          .positions = task.positions,
          .count = left < Vector::positions ? left : Vector::positions,
          .output_codes = e.gives_codes ? static_cast<std::uint8_t*>(task.output) + first : nullptr,
          .output_floats = e.gives_codes ? nullptr : static_cast<float*>(task.output) + first,
          .residual = task.residual == nullptr ? nullptr : task.residual + first,
          .zero_point = Vector::half_words(e.zero_point),
          .lowest = Vector::codes(e.lowest),
          .highest = Vector::codes(e.highest),
          .residual_zero_point = Vector::words(e.residual_zero_point),
          .residual_multiplier = Vector::floats(e.residual_multiplier),
          .minimum = Vector::floats(e.minimum),
          .maximum = Vector::floats(e.maximum)};
}

// Adds the second operand's codes, which come in the accumulators' order.
template <typename Vector>
[[gnu::always_inline]] inline void add_residual(const Panel<Vector>& panel, std::size_t channel,
                                                typename Vector::Floats (&scaled)[Vector::sum_vectors]) {
  const auto codes = Vector::load(panel.residual + channel * panel.positions, panel.count);
  typename Vector::Integers wide[Vector::sum_vectors];
  interleave<Vector>(wide, codes, Vector::zero(), Vector::zero(), Vector::zero());
#pragma GCC unroll 4
  for (std::size_t v = 0; v < Vector::sum_vectors; ++v) {
    const auto difference = Vector::to_floats(Vector::subtract_words(wide[v], panel.residual_zero_point));
    scaled[v] = Vector::add(scaled[v], Vector::multiply(difference, panel.residual_multiplier));
  }
}

// What an output channel's sums become.
enum class Ending {
  rectified_codes,  ///< See SparseTask::rectifies. The saturation of packing limits them.
  other,
};

// The numbers stay within 32 bits, so limiting the codes after rounding is the same as limiting before.
template <typename Vector, Ending ending>
[[gnu::always_inline]] inline void store_codes(const Panel<Vector>& panel, std::size_t channel,
                                               const typename Vector::Floats (&scaled)[Vector::sum_vectors]) {
  constexpr bool is_one = Vector::sum_vectors == 1;
  const auto low = Vector::pack_words(Vector::round(scaled[0]), Vector::round(scaled[is_one ? 0 : 1]));
  const auto high =
      is_one ? low : Vector::pack_words(Vector::round(scaled[is_one ? 0 : 2]), Vector::round(scaled[is_one ? 0 : 3]));
  typename Vector::Integers codes;
  if constexpr (ending == Ending::rectified_codes) {
    codes = Vector::add_codes(Vector::pack_half_words(low, high), panel.lowest);
  } else {
    codes = Vector::pack_half_words(Vector::add_half_words(low, panel.zero_point),
                                    Vector::add_half_words(high, panel.zero_point));
    codes = Vector::limit_codes(codes, panel.lowest, panel.highest);
  }
  Vector::store(panel.output_codes + channel * panel.positions, panel.count, codes);
}

template <typename Vector>
[[gnu::always_inline]] inline void store_floats(const Panel<Vector>& panel, std::size_t channel,
                                                const typename Vector::Floats (&results)[Vector::sum_vectors]) {
  constexpr std::size_t lane_floats = 4;
  alignas(panel_positions) float unordered[Vector::sum_vectors * Vector::lanes * lane_floats];
#pragma GCC unroll 4
  for (std::size_t v = 0; v < Vector::sum_vectors; ++v)
    Vector::store(unordered + v * Vector::lanes * lane_floats, Vector::limit(results[v], panel.minimum, panel.maximum));
  float* output = panel.output_floats + channel * panel.positions;
  for (std::size_t first = 0; first < panel.count; first += lane_floats) {
    const std::size_t lane = first / (Vector::sum_vectors * lane_floats);
    const std::size_t vector = first / lane_floats % Vector::sum_vectors;
    const std::size_t count = panel.count - first < lane_floats ? panel.count - first : lane_floats;
    __builtin_memcpy(output + first, unordered + (vector * Vector::lanes + lane) * lane_floats, count * sizeof(float));
  }
}

// Sums times multiplier, each product rounded once. Rectified ones: as floats, the bits of a sum n of 0 or more are
// 2^23 + n; multiplied and added to in one rounding, they give n * multiplier. Those of a negative sum are less than
// 2^23, which gives 0 or less.
template <typename Vector, Ending ending>
[[gnu::always_inline]] inline void scale(typename Vector::Floats (&scaled)[Vector::sum_vectors], const SparseRow& row,
                                         const typename Vector::Integers (&sums)[Vector::sum_vectors]) {
  const auto multiplier = Vector::floats(row.multiplier);
#pragma GCC unroll 4
  for (std::size_t v = 0; v < Vector::sum_vectors; ++v)
    if constexpr (ending == Ending::rectified_codes)
      scaled[v] = Vector::multiply_add(Vector::as_floats(sums[v]), multiplier, Vector::floats(row.addend));
    else
      scaled[v] = Vector::multiply(Vector::to_floats(sums[v]), multiplier);
}

template <typename Vector, Ending ending>
[[gnu::always_inline]] inline void finish_row(const Panel<Vector>& panel, const SparseRow& row,
                                              const typename Vector::Integers (&sums)[Vector::sum_vectors]) {
  typename Vector::Floats scaled[Vector::sum_vectors];
  scale<Vector, ending>(scaled, row, sums);
  if constexpr (ending == Ending::rectified_codes) {
    store_codes<Vector, ending>(panel, row.channel, scaled);
    return;
  }
  if (panel.residual != nullptr) add_residual<Vector>(panel, row.channel, scaled);
  if (panel.output_codes != nullptr)
    store_codes<Vector, ending>(panel, row.channel, scaled);
  else
    store_floats<Vector>(panel, row.channel, scaled);
}

// Where the program's streams have been read to.
struct Cursor {
  const std::uint32_t* quads = nullptr;
  const SparseRow* rows = nullptr;
};

template <typename Vector, Ending ending, std::size_t rows>
[[gnu::always_inline]] inline Cursor compute_group(const Panel<Vector>& panel, std::size_t quads, Cursor cursor) {
  constexpr std::size_t quad_words = rows + quad_elements;
  typename Vector::Integers sums[rows][Vector::sum_vectors];
#pragma GCC unroll 4
  for (std::size_t row = 0; row < rows; ++row)
#pragma GCC unroll 4
    for (std::size_t v = 0; v < Vector::sum_vectors; ++v) sums[row][v] = Vector::words(cursor.rows[row].bias);
  const std::uint32_t* const end = cursor.quads + quads * quad_words;
  for (const std::uint32_t* quad = cursor.quads; quad != end; quad += quad_words)
    add_quad<Vector>(sums, panel.input, quad);
#pragma GCC unroll 4
  for (std::size_t row = 0; row < rows; ++row) finish_row<Vector, ending>(panel, cursor.rows[row], sums[row]);
  return {.quads = end, .rows = cursor.rows + rows};
}

template <typename Vector, Ending ending, std::size_t rows>
Cursor compute_run(const Panel<Vector>& shared_panel, const SparseRun& run, Cursor cursor) {
  // In registers: stores of codes could otherwise change it, as far as the compiler knows.
  const Panel<Vector> panel = shared_panel;
  const std::size_t quads = run.quads;
  for (std::uint32_t group = 0; group < run.groups; ++group)
    cursor = compute_group<Vector, ending, rows>(panel, quads, cursor);
  return cursor;
}

template <typename Vector, Ending ending>
void compute_runs(const SparseTask& task, const Panel<Vector>& panel) {
  Cursor cursor{.quads = task.quads, .rows = task.rows};
  for (const SparseRun* run = task.runs; run != task.runs + task.run_count; ++run) switch (run->rows) {
      case 1:
        cursor = compute_run<Vector, ending, 1>(panel, *run, cursor);
        break;
      case 2:
        cursor = compute_run<Vector, ending, 2>(panel, *run, cursor);
        break;
      case 3:
        cursor = compute_run<Vector, ending, 3>(panel, *run, cursor);
        break;
      default:
        cursor = compute_run<Vector, ending, most_joined_rows>(panel, *run, cursor);
    }
}

// Where lines are shorter than a vector, the next one overwrites what it has too much.
void copy_inside_lines(const SparseTask& task, std::size_t first) {
  std::uint8_t* target = task.scratch;
  for (const PanelLine* line = task.lines; line != task.lines + task.line_count; ++line, target += task.line_bytes)
    _mm512_storeu_si512(target, _mm512_loadu_si512(task.input + first + line->source));
}

void copy_masked_lines(const SparseTask& task, std::size_t first, const std::uint64_t* inside) {
  const __m512i border = _mm512_set1_epi8(static_cast<char>(task.outside));
  std::uint8_t* target = task.scratch;
  for (const PanelLine* line = task.lines; line != task.lines + task.line_count; ++line, target += task.line_bytes) {
    const std::uint8_t* source = task.input + (static_cast<std::ptrdiff_t>(first) + line->source);
    _mm512_storeu_si512(target, _mm512_mask_loadu_epi8(border, inside[line->mask], source));
  }
}

void copy_lines(const SparseTask& task, std::size_t first) {
  if (task.inside == nullptr) return copy_inside_lines(task, first);
  const std::uint64_t* inside = task.inside + first / (panel_positions * task.panels_per_copy) * task.mask_count;
  std::uint64_t everywhere = ~std::uint64_t{0};
  for (std::size_t i = 0; i < task.mask_count; ++i) everywhere &= inside[i];
  if (everywhere == ~std::uint64_t{0}) return copy_inside_lines(task, first);
  copy_masked_lines(task, first, inside);
}

template <typename Vector>
void compute_panel(const SparseTask& task, std::size_t first, const std::uint8_t* input) {
  const Panel<Vector> panel = panel_of<Vector>(task, first, input);
  if (task.rectifies)
    compute_runs<Vector, Ending::rectified_codes>(task, panel);
  else
    compute_runs<Vector, Ending::other>(task, panel);
}

}  // namespace

void convolve_sparse(const SparseTask& task) {
  const bool copies = task.line_count > 0;
  const std::size_t copied_positions = panel_positions * task.panels_per_copy;
  for (std::size_t first = 0; first < task.positions; first += panel_positions) {
    const std::size_t behind_copy = first % copied_positions;
    if (copies && behind_copy == 0) copy_lines(task, first);
    const std::uint8_t* input = copies ? task.scratch + behind_copy : task.input + first;
    const std::size_t left = task.positions - first;
    if (left > NarrowVector::positions)
      compute_panel<WideVector>(task, first, input);
    else if (left > FewVector::positions)
      compute_panel<NarrowVector>(task, first, input);
    else
      compute_panel<FewVector>(task, first, input);
  }
}

}  // namespace podaq::runtime_detail::avx512
