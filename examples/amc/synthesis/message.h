#pragma once

#include "amc/synthesis/impairments.h"
#include "amc/synthesis/liquid_handle.h"
#include "podaq/data/counter_random.h"

namespace podaq::amc {

/// The analog transmitters' message (`Message`), sample by sample at a rate of its own: Gaussian noise, band-limited
/// and tilted like speech, at a level drawn once per frame, clipped to ±1.
class MessageSource {
 public:
  /// `options` must be valid for `rate_hz`.
  MessageSource(const Message& options, double rate_hz);

  /// Forgets the past and draws the level of the next frame.
  void start(CounterRandom& random);

  [[nodiscard]] float next(CounterRandom& random);

  /// Samples after which the filters have settled.
  [[nodiscard]] int settling_samples() const noexcept { return settling_samples_; }

 private:
  using Filter = LiquidHandle<iirfilt_rrrf, iirfilt_rrrf_destroy>;

  float filtered(float input);
  void reset();

  Message options_;
  Filter low_pass_;
  Filter high_pass_;
  float tilt_step_ = 1;
  float tilt_state_ = 0;
  float unit_power_gain_ = 1;
  float gain_ = 1;
  int settling_samples_ = 0;
};

}  // namespace podaq::amc
