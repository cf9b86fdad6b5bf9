#pragma once

#include <immintrin.h>

#include "runtime/kernels/tasks.h"

// The loops of quantize_floats for each instruction set, which includes this file with a `Codes` of its own, a type in
// an anonymous namespace, so that nothing here leaves a symbol that the linker could share:
//   static __m128i quantize(const QuantizeTask&, const float* input, std::size_t count): the codes of the first
//   `count` floats, of 16 at most, and reads no more;
//   static void store(std::uint8_t* output, __m128i codes, std::size_t count): stores as many, 16 at most.
namespace podaq::runtime_detail::quantizing {

inline constexpr std::size_t lanes = 16;

template <typename Codes>
void quantize_in_order(const QuantizeTask& task) {
  const std::size_t size = task.channels * task.positions;
  for (std::size_t i = 0; i < size; i += lanes)
    Codes::store(task.output + i, Codes::quantize(task, task.input + i, size - i), size - i);
}

/// I/Q frames and other pairs of channels: two vectors of codes become one run of pairs.
template <typename Codes>
void quantize_pairs(const QuantizeTask& task) {
  for (std::size_t position = 0; position < task.positions; position += lanes) {
    const std::size_t count = task.positions - position;
    const __m128i first = Codes::quantize(task, task.input + position, count);
    const __m128i second = Codes::quantize(task, task.input + task.channel_stride + position, count);
    std::uint8_t* output = task.output + 2 * position;
    Codes::store(output, _mm_unpacklo_epi8(first, second), 2 * count);
    if (count > lanes / 2) Codes::store(output + lanes, _mm_unpackhi_epi8(first, second), 2 * count - lanes);
  }
}

/// Where the bytes of three interleaved runs come from: entry [k][c][j] is the byte of run c that becomes byte j of the
/// k-th result, or a value that the shuffle turns into 0.
struct TripleOrder {
  alignas(lanes) std::uint8_t from[3][3][lanes] = {};
};

static constexpr TripleOrder triple_order() {
  TripleOrder order;
  for (std::size_t i = 0; i < 3 * lanes; ++i)
    for (std::size_t channel = 0; channel < 3; ++channel)
      order.from[i / lanes][channel][i % lanes] = i % 3 == channel ? static_cast<std::uint8_t>(i / 3) : 0x80;
  return order;
}

/// Colour images: three vectors of codes become one run of triples.
template <typename Codes>
void quantize_triples(const QuantizeTask& task) {
  static constexpr TripleOrder order = triple_order();
  for (std::size_t position = 0; position < task.positions; position += lanes) {
    const std::size_t count = task.positions - position;
    __m128i channels[3];
    for (std::size_t channel = 0; channel < 3; ++channel)
      channels[channel] = Codes::quantize(task, task.input + channel * task.channel_stride + position, count);
    for (std::size_t part = 0; part < 3 && part * lanes < 3 * count; ++part) {
      __m128i bytes = _mm_setzero_si128();
      for (std::size_t channel = 0; channel < 3; ++channel) {
        const auto* from = reinterpret_cast<const __m128i*>(order.from[part][channel]);
        bytes = _mm_or_si128(bytes, _mm_shuffle_epi8(channels[channel], _mm_load_si128(from)));
      }
      Codes::store(task.output + 3 * position + part * lanes, bytes, 3 * count - part * lanes);
    }
  }
}

template <typename Codes>
void quantize_interleaved(const QuantizeTask& task) {
  for (std::size_t channel = 0; channel < task.channels; ++channel)
    for (std::size_t position = 0; position < task.positions; position += lanes) {
      const std::size_t count = task.positions - position < lanes ? task.positions - position : lanes;
      alignas(lanes) std::uint8_t codes[lanes];
      _mm_store_si128(reinterpret_cast<__m128i*>(codes),
                      Codes::quantize(task, task.input + channel * task.channel_stride + position, count));
      std::uint8_t* output = task.output + position * task.channels + channel;
      for (std::size_t i = 0; i < count; ++i) output[i * task.channels] = codes[i];
    }
}

/// Computes a task.
template <typename Codes>
void quantize(const QuantizeTask& task) {
  if (!task.interleaves || task.channels == 1)
    quantize_in_order<Codes>(task);
  else if (task.channels == 2)
    quantize_pairs<Codes>(task);
  else if (task.channels == 3)
    quantize_triples<Codes>(task);
  else
    quantize_interleaved<Codes>(task);
}

}  // namespace podaq::runtime_detail::quantizing
