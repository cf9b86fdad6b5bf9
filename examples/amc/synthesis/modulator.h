#pragma once

#include <complex>
#include <memory>
#include <span>

#include "amc/synthesis/impairments.h"
#include "amc/synthesis/modulation.h"
#include "podaq/data/counter_random.h"

namespace podaq::amc {

/// A transmitter of one modulation, built on liquid-dsp's modulators and filters. It is reused from frame to frame
/// (creating liquid's objects takes longer than a frame), and forgets the last frame before it starts the next.
/// Not to be shared between threads.
class Modulator {
 public:
  /// `impairments` must be valid.
  Modulator(Modulation modulation, const Impairments& impairments);
  ~Modulator();
  Modulator(Modulator&&) noexcept;
  Modulator& operator=(Modulator&&) noexcept;

  /// Writes out.size() complex baseband samples: a stretch of an endless transmission, beginning `start` samples
  /// (0 to samples_per_symbol − 1) after the first sample of a symbol's interval, with the filters' warm-up behind it.
  /// Symbols or message are drawn from `random` alone.
  void generate(CounterRandom random, int start, std::span<std::complex<float>> out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace podaq::amc
