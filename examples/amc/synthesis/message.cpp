#include "amc/synthesis/message.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace podaq::amc {

namespace {

iirfilt_rrrf butterworth(liquid_iirdes_bandtype band, unsigned order, double cut_hz, double rate_hz) {
  // Ripples do not concern a Butterworth filter; liquid wants positive values all the same.
  return iirfilt_rrrf_create_prototype(LIQUID_IIRDES_BUTTER, band, LIQUID_IIRDES_SOS, order,
                                       static_cast<float>(cut_hz / rate_hz), 0.0F, 1.0F, 60.0F);
}

double from_decibel(double level_db) {
  return std::pow(10.0, level_db / 20);
}

}  // namespace

MessageSource::MessageSource(const Message& options, double rate_hz)
    : options_(options),
      low_pass_(butterworth(LIQUID_IIRDES_LOWPASS, 4, options.high_cut_hz, rate_hz)),
      high_pass_(butterworth(LIQUID_IIRDES_HIGHPASS, 3, options.low_cut_hz, rate_hz)),
      tilt_step_(static_cast<float>(1 - std::exp(-2 * std::numbers::pi * options.tilt_hz / rate_hz))) {
  // White noise of power 1 leaves the filters with the energy of their impulse response.
  const int response_length = static_cast<int>(16 * rate_hz / std::min(options.low_cut_hz, options.tilt_hz));
  std::vector<double> energy_until(static_cast<std::size_t>(response_length));
  double energy = 0;
  reset();
  for (int i = 0; i < response_length; ++i) {
    const double output = filtered(i == 0 ? 1.0F : 0.0F);
    energy += output * output;
    energy_until[static_cast<std::size_t>(i)] = energy;
  }
  unit_power_gain_ = static_cast<float>(1 / std::sqrt(energy));
  const auto settled = std::ranges::lower_bound(energy_until, 0.999 * energy);
  settling_samples_ = static_cast<int>(settled - energy_until.begin()) + 1;
}

void MessageSource::start(CounterRandom& random) {
  reset();
  const bool paused = random.uniform() < options_.pause_probability;
  const double level_db =
      paused ? options_.pause_level_db : options_.level_db + options_.level_spread_db * random.gaussian_pair()[0];
  gain_ = unit_power_gain_ * static_cast<float>(from_decibel(std::min(level_db, 0.0)));
}

float MessageSource::next(CounterRandom& random) {
  return std::clamp(gain_ * filtered(random.gaussian_pair()[0]), -1.0F, 1.0F);
}

float MessageSource::filtered(float input) {
  float limited = 0;
  iirfilt_rrrf_execute(low_pass_.get(), input, &limited);
  iirfilt_rrrf_execute(high_pass_.get(), limited, &limited);
  tilt_state_ += tilt_step_ * (limited - tilt_state_);
  return tilt_state_;
}

void MessageSource::reset() {
  iirfilt_rrrf_reset(low_pass_.get());
  iirfilt_rrrf_reset(high_pass_.get());
  tilt_state_ = 0;
}

}  // namespace podaq::amc
