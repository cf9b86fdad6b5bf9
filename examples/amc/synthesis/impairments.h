#pragma once

#include <filesystem>
#include <vector>

namespace podaq::amc {

/// The transmitter's pulse.
struct Pulse {
  int samples_per_symbol = 8;  ///< Even, 2 to 64.
  double roll_off = 0.35;      ///< Of the root raised cosine, in (0, 1]; also the bandwidth-time product of GFSK, GMSK.
  int delay_symbols = 12;      ///< Half the pulse's length, 2 to 64.
};

/// A frequency that wanders: a random walk that starts at 0 with the transmission and is held within ±limit_hz. A frame
/// begins at a random moment of the transmission's first age_samples samples.
struct FrequencyWalk {
  double step_hz = 0;      ///< Standard deviation of one sample's step, at least 0.
  double limit_hz = 0;     ///< Bound, in [0, sample rate / 8].
  double age_samples = 0;  ///< At least 0; the older the walk, the nearer to uniform within the bounds.
};

/// Multipath fading: each path is a sum of sinusoids (Clarke's model), the first one Rician, the others Rayleigh. No
/// paths: no fading. Without sinusoids the paths stand still: each has the gain 1, in every frame.
struct Fading {
  int sinusoids = 8;                         ///< Per path, 0 to 1024.
  double doppler_hz = 0;                     ///< Largest Doppler shift, in [0, sample rate / 1000].
  double rician_k = 0;                       ///< First path: power of the line of sight over the scattered power.
  std::vector<double> path_delays = {};      ///< In samples, each in [0, taps − 1].
  std::vector<double> path_magnitudes = {};  ///< One each, at least 0, not all 0.
  int taps = 1;                              ///< Length of the filter that realizes the delays, 1 to 64.
};

/// A receiver whose in-phase and quadrature branches differ, by a gain and an angle that each frame draws anew,
/// uniformly between the bounds on both sides of 0. It acts on signal and noise alike: y = g·cos(φ/2)·x_i −
/// g·sin(φ/2)·x_q + j·(cos(φ/2)·x_q − sin(φ/2)·x_i)/g, with 20·log₁₀(g²) dB between the branches.
struct IqImbalance {
  double amplitude_db = 0;   ///< Largest difference of gain, in [0, 20].
  double phase_degrees = 0;  ///< Largest error of the right angle, in [0, 45].
};

/// The analog transmitters' message: noise shaped like speech.
struct Message {
  double low_cut_hz = 300;
  double high_cut_hz = 3400;     ///< low_cut_hz < high_cut_hz < message rate / 2 (sample rate / samples per symbol).
  double tilt_hz = 500;          ///< Above it the spectrum falls by 6 dB an octave.
  double level_db = -16;         ///< Mean level while speaking, against full scale; at most 0.
  double level_spread_db = 6;    ///< Standard deviation of the level from frame to frame, at least 0.
  double pause_probability = 0;  ///< Share of frames that fall into a pause, in [0, 1].
  double pause_level_db = -60;   ///< Level in a pause, at most 0.
};

/// The analog transmitters.
struct Analog {
  double modulation_index = 0.8;          ///< Of amplitude modulation, in (0, 1].
  double frequency_deviation_hz = 75000;  ///< At full scale, in (0, sample rate / 2).
};

/// Everything that stands between a symbol or a message and the noise of the receiver. The defaults are a clean
/// channel: no offsets, no fading, timing and phase of the transmitter known.
struct Impairments {
  double sample_rate_hz = 200e3;  ///< Positive.
  bool random_start = false;      ///< Whether a frame starts at a random time and carrier phase.
  Pulse pulse = {};
  FrequencyWalk clock_offset = {};
  FrequencyWalk carrier_offset = {};
  Fading fading = {};
  IqImbalance iq_imbalance = {};
  Message message = {};
  Analog analog = {};
};

/// What a receiver's signal may be spared.
enum class Impairment {
  multipath,       ///< All paths but the first.
  fading,          ///< Gains that change with time and from frame to frame.
  carrier_offset,  ///< The receiver's oscillator runs true.
  clock_offset,    ///< So does its sample clock.
  iq_imbalance,    ///< Its branches are equal.
};

/// The same impairments without one of them.
[[nodiscard]] Impairments without(Impairments impairments, Impairment spared);

/// Throws `Error` (invalid_argument), naming the field and its range, unless every field is within its range.
void validate(const Impairments& impairments);

/// Reads a TOML file with every field of `Impairments` but random_start, which it turns on (see
/// examples/amc/impairments/radioml2016.toml). Throws `Error`: io if it cannot be read, recipe with file and line if it
/// is malformed or a key is unknown, missing or of another type; invalid_argument as `validate` does.
[[nodiscard]] Impairments load_impairments(const std::filesystem::path& path);

}  // namespace podaq::amc
