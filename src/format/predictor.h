#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "format/binary_coder.h"

// Prediction of one binary decision from several contexts: each context holds an adaptive probability, and a logistic
// mixer weighs them (in the log-odds domain) by how well they have done.
namespace podaq::format {

namespace predictor_detail {

// Log-odds are fixed-point numbers with 8 fractional bits, within ±log_odds_limit.
inline constexpr int log_odds_limit = 2047;

consteval double exponential(double x) {
  double term = 1.0;
  double sum = 1.0;
  for (int i = 1; i < 20; ++i) {
    term *= x / i;
    sum += term;
  }
  return sum;
}

// [x + log_odds_limit + 1]: 65536 / (1 + e^(-x / 256)).
consteval std::array<std::uint16_t, 2 * (log_odds_limit + 1)> make_probabilities() {
  std::array<std::uint16_t, 2 * (log_odds_limit + 1)> table{};
  const double step = exponential(1.0 / 256);
  double power = 1.0;  // e^(x / 256)
  for (int x = 0; x <= log_odds_limit; ++x) {
    const double high = 65536.0 * power / (1.0 + power);
    table[static_cast<std::size_t>(log_odds_limit + 1 + x)] = static_cast<std::uint16_t>(high);
    table[static_cast<std::size_t>(log_odds_limit + 1 - x)] = static_cast<std::uint16_t>(65536.0 - high);
    power *= step;
  }
  table[0] = table[1];
  return table;
}

inline constexpr auto probabilities = make_probabilities();

// [p / 16]: the largest x whose probability does not exceed p's middle. The inverse of the table above.
consteval std::array<std::int16_t, 4096> make_log_odds() {
  std::array<std::int16_t, 4096> table{};
  int x = -log_odds_limit;
  for (int i = 0; i < 4096; ++i) {
    while (x < log_odds_limit && probabilities[static_cast<std::size_t>(x + 1 + log_odds_limit + 1)] <= i * 16 + 8) ++x;
    table[static_cast<std::size_t>(i)] = static_cast<std::int16_t>(x);
  }
  return table;
}

inline constexpr auto log_odds = make_log_odds();

inline constexpr int most_observations = 255;

// [n]: 65536 / (n + 1.5), the step of a probability after n observations.
consteval std::array<std::uint16_t, most_observations + 1> make_steps() {
  std::array<std::uint16_t, most_observations + 1> table{};
  for (int n = 0; n <= most_observations; ++n)
    table[static_cast<std::size_t>(n)] = static_cast<std::uint16_t>(2 * 65536 / (2 * n + 3));
  return table;
}

inline constexpr auto steps = make_steps();

}  // namespace predictor_detail

// The probability of a 1 in one context, and how often the context was seen.
struct ContextCell {
  std::uint16_t flipped_one;  // With its highest bit turned over, so that memory full of zeros is cells of one half.
  std::uint8_t observations;

  [[nodiscard]] std::uint32_t one() const { return flipped_one ^ 32768U; }

  void observe(bool bit, std::uint8_t limit) {
    const std::uint32_t distance = bit ? 65535U - one() : one();
    const std::uint32_t change = distance * predictor_detail::steps[observations] >> 16;
    flipped_one = static_cast<std::uint16_t>((bit ? one() + change : one() - change) ^ 32768U);
    observations = static_cast<std::uint8_t>(observations + (observations < limit ? 1 : 0));
  }
};

// Cells that know nothing yet. Models have many more than a short stream ever looks at: what is not looked at is never
// touched, and pages that are not touched take neither time nor memory.
class Cells {
 public:
  explicit Cells(std::size_t count) : cells_(allocate(count), std::free), count_(count) {}

  [[nodiscard]] ContextCell& operator[](std::size_t index) { return cells_.get()[index]; }
  void forget() { std::memset(cells_.get(), 0, count_ * sizeof(ContextCell)); }

 private:
  static ContextCell* allocate(std::size_t count) {
    void* cells = std::calloc(count, sizeof(ContextCell));
    if (cells == nullptr) throw std::bad_alloc();
    return static_cast<ContextCell*>(cells);
  }

  std::unique_ptr<ContextCell, void (*)(void*)> cells_;
  std::size_t count_;
};

// Mixes `inputs` contexts and a constant. Weights are chosen by a set, such as the position in a kernel. The divisor of
// what they learn from an error is a constant, since a division by a variable takes longer than all the rest.
template <std::size_t inputs, int learning_divisor = 1 << 15>
class Mixer {
 public:
  Mixer(std::size_t sets, std::uint8_t observation_limit) : limit_(observation_limit), weights_(sets, initial()) {}

  // Predicts a bit from the cells, codes it, and teaches cells and weights what it was.
  template <typename Coder>
  bool code(Coder& coder, bool bit, const std::array<ContextCell*, inputs>& cells, std::size_t set) {
    using namespace predictor_detail;
    auto& weights = weights_[set];
    std::array<int, inputs + 1> evidence{};
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < inputs; ++i) {
      // A context seen n times is believed n / (n + 1.5).
      const int odds = log_odds[cells[i]->one() >> 4];
      evidence[i] = odds - odds * steps[cells[i]->observations] / 65536;
      sum += std::int64_t{weights[i]} * evidence[i];
    }
    evidence[inputs] = 64;
    sum += std::int64_t{weights[inputs]} * evidence[inputs];
    const auto mixed = static_cast<int>(std::clamp<std::int64_t>(sum / 65536, -log_odds_limit, log_odds_limit));
    const Probability one =
        std::clamp<Probability>(probabilities[static_cast<std::size_t>(mixed + log_odds_limit + 1)], 24, 65536 - 24);
    bit = coder.code(bit, one);
    const int error = (bit ? 65535 : 0) - static_cast<int>(one);
    for (std::size_t i = 0; i <= inputs; ++i)
      weights[i] = std::clamp(weights[i] + error * evidence[i] / learning_divisor, -largest_weight, largest_weight);
    for (ContextCell* cell : cells) cell->observe(bit, limit_);
    return bit;
  }

 private:
  static constexpr int largest_weight = 1 << 24;

  static std::array<int, inputs + 1> initial() {
    std::array<int, inputs + 1> weights{};
    std::fill_n(weights.begin(), inputs, static_cast<int>(3 * 65536 / (2 * inputs)));
    return weights;
  }

  std::uint8_t limit_;
  std::vector<std::array<int, inputs + 1>> weights_;
};

}  // namespace podaq::format
