#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>

namespace podaq {

/// One block of the Philox4x32-10 generator: four random words as a pure function of a 128-bit counter and a 64-bit
/// key. Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), §4.
[[nodiscard]] constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                                            std::array<std::uint32_t, 2> key) noexcept {
  constexpr std::uint64_t first_multiplier = 0xD2511F53;
  constexpr std::uint64_t second_multiplier = 0xCD9E8D57;
  constexpr std::uint32_t golden_ratio = 0x9E3779B9;
  constexpr std::uint32_t root_of_three = 0xBB67AE85;
  constexpr int rounds = 10;
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t first = first_multiplier * counter[0];
    const std::uint64_t second = second_multiplier * counter[2];
    counter = {static_cast<std::uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(second),
               static_cast<std::uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(first)};
    key[0] += golden_ratio;
    key[1] += root_of_three;
  }
  return counter;
}

/// Names one stream of random draws: a seed and three words of the caller's choosing (say class, SNR and index).
/// Different streams are independent; nothing is shared between them, so any thread may draw any stream.
struct RandomStream {
  std::uint64_t seed = 0;                          ///< The same for all streams of a run.
  std::array<std::uint32_t, 3> words = {0, 0, 0};  ///< Which stream of the run.
};

/// Reads a `RandomStream` from its first draw on: draw n depends on the stream and n alone.
class CounterRandom {
 public:
  /// Stands at the first draw of `stream`.
  explicit constexpr CounterRandom(const RandomStream& stream) noexcept
      : counter_{0, stream.words[0], stream.words[1], stream.words[2]},
        key_{static_cast<std::uint32_t>(stream.seed), static_cast<std::uint32_t>(stream.seed >> 32)} {}

  /// A uniform 32-bit word. A stream holds 2^34 of them, then repeats.
  constexpr std::uint32_t word() noexcept {
    if (used_ == block_.size()) {
      block_ = philox(counter_, key_);
      ++counter_[0];
      used_ = 0;
    }
    return block_[used_++];
  }

  /// A uniform integer in [0, bound), without bias (Lemire's multiply-and-reject, "Fast random integer generation in an
  /// interval", 2019). `bound` must be at least 1. Takes more than one word in bound of 2^32 cases at most.
  constexpr std::uint32_t below(std::uint32_t bound) noexcept {
    std::uint64_t product = std::uint64_t{word()} * bound;
    if (static_cast<std::uint32_t>(product) < bound) {
      const std::uint32_t smallest_fair = (0U - bound) % bound;
      while (static_cast<std::uint32_t>(product) < smallest_fair) product = std::uint64_t{word()} * bound;
    }
    return static_cast<std::uint32_t>(product >> 32);
  }

  /// A uniform float in [0, 1), a multiple of 2^-24.
  constexpr float uniform() noexcept { return static_cast<float>(word() >> 8) * 0x1p-24F; }

  /// A uniform float in [low, high); `high` itself can occur by rounding.
  constexpr float uniform(float low, float high) noexcept { return low + (high - low) * uniform(); }

  /// Two independent draws of the normal distribution with mean 0 and variance 1 (Box and Muller, 1958; float32, so the
  /// tails end at 6.7 standard deviations). Takes exactly two words.
  std::array<float, 2> gaussian_pair() noexcept {
    const float radius = std::sqrt(-2.0F * std::log((static_cast<float>(word()) + 0.5F) * 0x1p-32F));
    const float angle = 2.0F * std::numbers::pi_v<float> * uniform();
    return {radius * std::cos(angle), radius * std::sin(angle)};
  }

  /// Fills `out` with independent normal draws of mean 0 and variance 1.
  void fill_gaussian(std::span<float> out) noexcept {
    for (std::size_t i = 0; i < out.size(); i += 2) {
      const auto pair = gaussian_pair();
      out[i] = pair[0];
      if (i + 1 < out.size()) out[i + 1] = pair[1];
    }
  }

 private:
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> block_ = {};
  std::size_t used_ = 4;
};

}  // namespace podaq
