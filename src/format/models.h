#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "format/bytes.h"
#include "format/container.h"

// The adaptive coder: each section kind is cut into binary decisions, each decision is predicted by mixing adaptive
// probabilities of several contexts, and the range coder of binary_coder.h spends what the prediction leaves. On
// streams of some kilobytes this reaches below the order-0 entropy that zstd stays above. Everything is integer
// arithmetic, so that every machine decodes the same; contexts and constants are part of the file format.
namespace podaq::format {

// Each decision costs tens of nanoseconds on reading, so the coder is for small streams; a larger one is refused.
inline constexpr std::uint64_t most_adaptive_bytes = std::uint64_t{1} << 18;

// What the models of masks hold for each element of a tensor, at most: where it has one row, a cell each for its taps
// or channels and for its columns, and a count.
inline constexpr std::uint64_t most_mask_model_bytes = 10;

// A tensor as the models see it: rows are output channels, taps the positions of a kernel.
struct StreamTensor {
  std::size_t rows = 1;
  std::size_t channels = 1;
  std::size_t taps = 1;
  bool masked = false;
  std::size_t first_mask_bit = 0;  // Where the masks of all tensors have this one's, if it is masked.

  [[nodiscard]] std::size_t count() const { return rows * channels * taps; }
};

// What both sides know when masks or codes are coded: the tensors in the stream and, for codes, all masks.
struct StreamShape {
  std::vector<StreamTensor> tensors;
  std::span<const std::byte> masks;
};

[[nodiscard]] Bytes encode_adaptive(SectionKind kind, std::span<const std::byte> bytes, const StreamShape& shape);

// Fills `bytes`, whose size fits `shape`. False where `stored` goes on after all of them are decoded.
[[nodiscard]] bool decode_adaptive(SectionKind kind, std::span<const std::byte> stored, const StreamShape& shape,
                                   std::span<std::byte> bytes);

}  // namespace podaq::format
