#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "format/bytes.h"

// A range coder for binary decisions. Both sides keep an interval; a decision takes the part of it that its
// probability earns, and bytes leave as soon as they are settled. Encoder and decoder share the name `code`, so that
// one template walks a stream for both.
namespace podaq::format {

// The probability that a bit is 1, in 1/65536; 1 to 65535.
using Probability = std::uint32_t;

inline constexpr std::uint32_t smallest_range = 1U << 24;

class BinaryEncoder {
 public:
  bool code(bool bit, Probability one) {
    const auto bound = static_cast<std::uint32_t>((std::uint64_t{range_} * one) >> 16);
    if (bit) {
      range_ = bound;
    } else {
      advance(bound);
      range_ -= bound;
    }
    for (; range_ < smallest_range; range_ <<= 8) shift_out();
    return bit;
  }

  // The shortest bytes that, with zeros behind, lie in the final interval.
  Bytes finish() {
    for (int kept = 0; kept <= 4; ++kept) {
      const std::uint64_t cut = 0xFFFFFFFFU >> (8 * kept) & (kept == 4 ? 0U : 0xFFFFFFFFU);
      const std::uint64_t candidate = (std::uint64_t{low_} + cut) & ~cut;
      if (candidate >= std::uint64_t{low_} + range_) continue;
      advance(static_cast<std::uint32_t>(candidate - low_));
      break;
    }
    for (int i = 0; i < 4; ++i) shift_out();
    while (!out_.empty() && out_.back() == std::byte{0}) out_.pop_back();
    return std::move(out_);
  }

 private:
  void advance(std::uint32_t distance) {
    low_ += distance;
    if (low_ >= distance) return;
    // The sum wrapped round: carry into the bytes already out. The interval never leaves [0, 1), so one stops it.
    for (auto byte = out_.rbegin(); byte != out_.rend(); ++byte) {
      *byte = static_cast<std::byte>(std::to_integer<unsigned>(*byte) + 1);
      if (*byte != std::byte{0}) break;
    }
  }

  void shift_out() {
    out_.push_back(static_cast<std::byte>(low_ >> 24));
    low_ <<= 8;
  }

  Bytes out_;
  std::uint32_t low_ = 0;
  std::uint32_t range_ = 0xFFFFFFFF;
};

// Reads zeros where the stored bytes end, and so never past them.
class BinaryDecoder {
 public:
  explicit BinaryDecoder(std::span<const std::byte> stored) : stored_(stored) {
    for (int i = 0; i < 4; ++i) shift_in();
  }

  bool code(bool /*unknown*/, Probability one) {
    const auto bound = static_cast<std::uint32_t>((std::uint64_t{range_} * one) >> 16);
    const bool bit = distance_ < bound;
    if (bit) {
      range_ = bound;
    } else {
      distance_ -= bound;
      range_ -= bound;
    }
    for (; range_ < smallest_range; range_ <<= 8) shift_in();
    return bit;
  }

  [[nodiscard]] bool has_read_everything() const { return next_ >= stored_.size(); }

 private:
  void shift_in() {
    const auto byte = next_ < stored_.size() ? std::to_integer<std::uint32_t>(stored_[next_]) : 0U;
    distance_ = (distance_ << 8) | byte;
    ++next_;
  }

  std::span<const std::byte> stored_;
  std::size_t next_ = 0;
  std::uint32_t distance_ = 0;  // From the low end of the interval to the coded number.
  std::uint32_t range_ = 0xFFFFFFFF;
};

}  // namespace podaq::format
