#include <immintrin.h>

#include "runtime/kernels/avx512/tasks.h"

namespace podaq::runtime_detail::avx512 {

namespace {

constexpr std::size_t bytes_per_vector = 64;
constexpr std::size_t lanes = 16;

// The maximum of one window over up to 64 channels.
[[gnu::always_inline]] inline __m512i window_maximum(const CodeMaxPoolTask& task, WindowSpan rows, WindowSpan columns,
                                                     std::size_t channel, __mmask64 mask) {
  __m512i largest = _mm512_setzero_si512();
  for (std::size_t y = 0; y < rows.count; ++y)
    for (std::size_t x = 0; x < columns.count; ++x) {
      const std::size_t position =
          (rows.first + y * task.row_step) * task.input_width + columns.first + x * task.column_step;
      const std::uint8_t* codes = task.input + position * task.channels + channel;
      largest = _mm512_max_epu8(largest, _mm512_maskz_loadu_epi8(mask, codes));
    }
  return largest;
}

// 16 codes in 16 bytes.
[[gnu::always_inline]] inline __m128i quantize_vector(const QuantizeTask& task, __m512 x) {
  const __m512 scaled = _mm512_mul_ps(x, _mm512_set1_ps(task.inverse_scale));
  const __mmask16 numbers = _mm512_cmp_ps_mask(scaled, scaled, _CMP_ORD_Q);  // NaN becomes the zero point
  const __m512 low = _mm512_set1_ps(static_cast<float>(task.lowest - task.zero_point));
  const __m512 high = _mm512_set1_ps(static_cast<float>(task.highest - task.zero_point));
  const __m512 limited = _mm512_maskz_min_ps(numbers, _mm512_max_ps(scaled, low), high);
  const __m512i codes = _mm512_add_epi32(_mm512_cvtps_epi32(limited), _mm512_set1_epi32(task.zero_point));
  return _mm512_cvtepi32_epi8(codes);
}

[[gnu::always_inline]] inline __m128i quantize_up_to_16(const QuantizeTask& task, const float* input,
                                                        std::size_t count) {
  const __mmask16 mask = count >= lanes ? __mmask16{0xFFFF} : static_cast<__mmask16>((1U << count) - 1U);
  return quantize_vector(task, _mm512_maskz_loadu_ps(mask, input));
}

[[gnu::always_inline]] inline void store_bytes(std::uint8_t* output, __m128i bytes, std::size_t count) {
  const __mmask16 mask = count >= lanes ? __mmask16{0xFFFF} : static_cast<__mmask16>((1U << count) - 1U);
  _mm_mask_storeu_epi8(output, mask, bytes);
}

void quantize_in_order(const QuantizeTask& task) {
  const std::size_t size = task.channels * task.positions;
  for (std::size_t i = 0; i < size; i += lanes)
    store_bytes(task.output + i, quantize_up_to_16(task, task.input + i, size - i), size - i);
}

// I/Q frames and other pairs of channels: two vectors of codes become one run of pairs.
void quantize_pairs(const QuantizeTask& task) {
  for (std::size_t position = 0; position < task.positions; position += lanes) {
    const std::size_t count = task.positions - position;
    const __m128i first = quantize_up_to_16(task, task.input + position, count);
    const __m128i second = quantize_up_to_16(task, task.input + task.channel_stride + position, count);
    std::uint8_t* output = task.output + 2 * position;
    store_bytes(output, _mm_unpacklo_epi8(first, second), 2 * count);
    if (count > lanes / 2) store_bytes(output + lanes, _mm_unpackhi_epi8(first, second), 2 * count - lanes);
  }
}

// Where the bytes of three interleaved runs come from: entry [k][c][j] is the byte of run c that becomes byte j of the
// k-th result, or a value that the shuffle turns into 0.
struct TripleOrder {
  alignas(lanes) std::uint8_t from[3][3][lanes] = {};
};

constexpr TripleOrder triple_order() {
  TripleOrder order;
  for (std::size_t i = 0; i < 3 * lanes; ++i)
    for (std::size_t channel = 0; channel < 3; ++channel)
      order.from[i / lanes][channel][i % lanes] = i % 3 == channel ? static_cast<std::uint8_t>(i / 3) : 0x80;
  return order;
}

// Colour images: three vectors of codes become one run of triples.
void quantize_triples(const QuantizeTask& task) {
  static constexpr TripleOrder order = triple_order();
  for (std::size_t position = 0; position < task.positions; position += lanes) {
    const std::size_t count = task.positions - position;
    __m128i channels[3];
    for (std::size_t channel = 0; channel < 3; ++channel)
      channels[channel] = quantize_up_to_16(task, task.input + channel * task.channel_stride + position, count);
    for (std::size_t part = 0; part < 3 && part * lanes < 3 * count; ++part) {
      __m128i bytes = _mm_setzero_si128();
      for (std::size_t channel = 0; channel < 3; ++channel) {
        const auto* from = reinterpret_cast<const __m128i*>(order.from[part][channel]);
        bytes = _mm_or_si128(bytes, _mm_shuffle_epi8(channels[channel], _mm_load_si128(from)));
      }
      store_bytes(task.output + 3 * position + part * lanes, bytes, 3 * count - part * lanes);
    }
  }
}

void quantize_interleaved(const QuantizeTask& task) {
  for (std::size_t channel = 0; channel < task.channels; ++channel)
    for (std::size_t position = 0; position < task.positions; position += lanes) {
      const std::size_t count = task.positions - position < lanes ? task.positions - position : lanes;
      alignas(lanes) std::uint8_t codes[lanes];
      _mm_store_si128(reinterpret_cast<__m128i*>(codes),
                      quantize_up_to_16(task, task.input + channel * task.channel_stride + position, count));
      std::uint8_t* output = task.output + position * task.channels + channel;
      for (std::size_t i = 0; i < count; ++i) output[i * task.channels] = codes[i];
    }
}

}  // namespace

void pool_code_maxima(const CodeMaxPoolTask& task) {
  std::uint8_t* output = task.output;
  for (std::size_t row = 0; row < task.rows; ++row)
    for (std::size_t column = 0; column < task.columns; ++column, output += task.channels)
      for (std::size_t channel = 0; channel < task.channels; channel += bytes_per_vector) {
        const std::size_t left = task.channels - channel;
        const __mmask64 mask = left >= bytes_per_vector ? ~__mmask64{0} : (__mmask64{1} << left) - 1;
        const __m512i largest = window_maximum(task, task.row_spans[row], task.column_spans[column], channel, mask);
        _mm512_mask_storeu_epi8(output + channel, mask, largest);
      }
}

void quantize_floats(const QuantizeTask& task) {
  if (!task.interleaves || task.channels == 1)
    quantize_in_order(task);
  else if (task.channels == 2)
    quantize_pairs(task);
  else if (task.channels == 3)
    quantize_triples(task);
  else
    quantize_interleaved(task);
}

}  // namespace podaq::runtime_detail::avx512
