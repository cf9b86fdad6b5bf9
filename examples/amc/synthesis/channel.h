#pragma once

#include <array>
#include <complex>
#include <span>
#include <vector>

#include "amc/synthesis/frame_key.h"
#include "amc/synthesis/impairments.h"

namespace podaq::amc {

/// The way from the transmitter to the receiver's sampler, noise excepted: sample-clock offset, carrier offset and
/// phase, then multipath fading. Keeps scratch memory only; frames do not depend on one another.
class Channel {
 public:
  /// A channel for frames of `length` samples; `impairments` must be valid.
  Channel(const Impairments& impairments, int length);

  /// How many transmitted samples `apply` needs for one frame.
  [[nodiscard]] int input_length() const noexcept { return input_length_; }

  /// Turns input_length() transmitted samples into `length` received ones.
  void apply(const FrameKey& key, std::span<const std::complex<float>> transmitted,
             std::span<std::complex<float>> received);

 private:
  static constexpr int interpolation_taps = 8;
  static constexpr int interpolation_phases = 256;
  using PhaseTaps = std::array<float, interpolation_taps>;

  void resample(const FrameKey& key, float start, std::span<const std::complex<float>> transmitted);
  void rotate(const FrameKey& key, double phase);
  void fade(const FrameKey& key, std::span<std::complex<float>> received);

  Impairments options_;
  int resampled_length_;
  int largest_drift_;
  int input_length_;
  std::vector<PhaseTaps> interpolation_;   ///< Windowed sinc, one row per phase and one more.
  std::vector<std::vector<float>> paths_;  ///< Each path's weight on each tap of the fading filter.
  int fading_interval_;                    ///< Samples between two evaluations of the fading gains.
  std::vector<float> real_;                ///< The signal between the steps, as separate parts so that loops vectorize.
  std::vector<float> imaginary_;
  std::vector<float> faded_real_;
  std::vector<float> faded_imaginary_;
};

}  // namespace podaq::amc
