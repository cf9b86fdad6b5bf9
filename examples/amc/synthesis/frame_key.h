#pragma once

#include <cstdint>

#include "amc/synthesis/modulation.h"
#include "podaq/data/counter_random.h"

namespace podaq::amc {

/// What a random draw is for. Each purpose has its own stream, so that one part of a frame can change without moving
/// the draws of the others. The numbers are part of the key of each draw: append only.
enum class Purpose : std::uint16_t { signal, reception, clock, carrier, fading, noise, iq_imbalance };

/// Names one frame; every random number in it is a function of this key, the purpose and the draw's number alone.
struct FrameKey {
  std::uint64_t seed = 0;
  Modulation modulation = Modulation::ook;
  int snr_db = 0;
  std::uint32_t index = 0;

  /// The draws of one purpose, from the first on.
  [[nodiscard]] CounterRandom random(Purpose purpose) const noexcept {
    const auto class_and_purpose = static_cast<std::uint32_t>(modulation) | static_cast<std::uint32_t>(purpose) << 16;
    return CounterRandom({.seed = seed, .words = {class_and_purpose, static_cast<std::uint32_t>(snr_db), index}});
  }
};

}  // namespace podaq::amc
