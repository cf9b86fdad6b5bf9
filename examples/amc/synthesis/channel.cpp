#include "amc/synthesis/channel.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace podaq::amc {

namespace {

constexpr double pi = std::numbers::pi;

double sinc(double x) {
  return x == 0 ? 1.0 : std::sin(pi * x) / (pi * x);
}

/// The modified Bessel function I₀ by its power series. std::cyl_bessel_i would do, were it not for lgamma, which
/// writes a global that all threads share.
double bessel_i0(double x) {
  double sum = 1;
  double term = 1;
  for (int k = 1; term > 1e-16 * sum; ++k) {
    term *= (x / 2 / k) * (x / 2 / k);
    sum += term;
  }
  return sum;
}

double kaiser_window(double position, double shape) {
  const double inside = std::max(0.0, 1 - position * position);
  return bessel_i0(shape * std::sqrt(inside)) / bessel_i0(shape);
}

/// Folds a value into [−limit, limit] as two mirrors there would.
double folded(double value, double limit) {
  if (limit == 0) return 0;
  const double within = std::remainder(value, 4 * limit);
  return std::abs(within) <= limit ? within : std::copysign(2 * limit, within) - within;
}

/// `FrequencyWalk` from a frame's first sample on: a random walk between mirrors, whose start is that of a walk of
/// random age. It moves once per `interval` samples: a sample's step is so small that holding it for a few changes
/// nothing that can be measured.
class BoundedWalk {
 public:
  static constexpr int interval = 8;

  BoundedWalk(const FrequencyWalk& options, CounterRandom random)
      : random_(random), step_(options.step_hz * std::sqrt(double{interval})), limit_(options.limit_hz) {
    const double age = options.age_samples * random_.uniform();
    value_ = folded(options.step_hz * std::sqrt(age) * random_.gaussian_pair()[0], limit_);
  }

  [[nodiscard]] double value() const noexcept { return value_; }

  void advance() {
    if (step_ > 0 && limit_ > 0) value_ = folded(value_ + step_ * random_.gaussian_pair()[0], limit_);
  }

 private:
  CounterRandom random_;
  double step_;
  double limit_;
  double value_ = 0;
};

/// Complex gain of one path as a sum of sinusoids. Source: Xiao, Zheng, Beaulieu, "Novel sum-of-sinusoids simulation
/// models for Rayleigh and Rician fading channels", IEEE Trans. Wireless Communications 5(12), 2006.
class PathGain {
 public:
  PathGain(const Fading& options, double doppler_per_sample, bool line_of_sight, CounterRandom& random)
      : angular_doppler_(2 * pi * doppler_per_sample),
        scattered_scale_(std::sqrt(1.0 / std::max(1, options.sinusoids))),
        line_of_sight_scale_(0),
        stands_still_(options.sinusoids == 0) {
    const auto random_angle = [&random] { return pi * (2.0 * random.uniform() - 1.0); };
    const double arrival = random_angle();
    for (int n = 1; n <= options.sinusoids; ++n) {
      waves_.push_back({.frequency = std::cos((2 * pi * n - pi + arrival) / (4 * options.sinusoids)),
                        .real_phase = random_angle(),
                        .imaginary_phase = random_angle()});
    }
    direct_ = {.frequency = std::cos(random_angle()), .real_phase = random_angle(), .imaginary_phase = 0};
    if (line_of_sight) {
      line_of_sight_scale_ = std::sqrt(options.rician_k / (options.rician_k + 1));
      scattered_scale_ *= std::sqrt(1 / (options.rician_k + 1));
    }
  }

  [[nodiscard]] std::complex<double> at(double sample) const {
    if (stands_still_) return 1;
    const double turn = angular_doppler_ * sample;
    std::complex<double> gain = std::polar(line_of_sight_scale_, turn * direct_.frequency + direct_.real_phase);
    for (const auto& wave : waves_) {
      const double angle = turn * wave.frequency;
      gain +=
          scattered_scale_ * std::complex(std::cos(angle + wave.real_phase), std::sin(angle + wave.imaginary_phase));
    }
    return gain;
  }

 private:
  struct Wave {
    double frequency = 0;  ///< As a share of the largest Doppler shift.
    double real_phase = 0;
    double imaginary_phase = 0;
  };

  double angular_doppler_;
  double scattered_scale_;
  double line_of_sight_scale_;
  bool stands_still_;
  std::vector<Wave> waves_;
  Wave direct_;
};

/// The fading filter at one moment.
struct FilterTaps {
  std::vector<float> real;
  std::vector<float> imaginary;
};

FilterTaps filter_at(double sample, const std::vector<PathGain>& gains, const std::vector<std::vector<float>>& paths) {
  const auto taps = paths.front().size();
  FilterTaps filter{.real = std::vector<float>(taps), .imaginary = std::vector<float>(taps)};
  for (std::size_t path = 0; path < paths.size(); ++path) {
    const std::complex<float> gain(gains[path].at(sample));
    for (std::size_t tap = 0; tap < taps; ++tap) {
      filter.real[tap] += paths[path][tap] * gain.real();
      filter.imaginary[tap] += paths[path][tap] * gain.imag();
    }
  }
  return filter;
}

}  // namespace

Channel::Channel(const Impairments& impairments, int length) : options_(impairments) {
  const auto& fading = options_.fading;
  resampled_length_ = length + (fading.path_delays.empty() ? 0 : fading.taps - 1);
  largest_drift_ =
      static_cast<int>(std::ceil(resampled_length_ * options_.clock_offset.limit_hz / options_.sample_rate_hz));
  input_length_ = resampled_length_ + 2 * largest_drift_ + interpolation_taps;

  constexpr double window_shape = 5;  // tones up to 0.3 of the sample rate come out within 0.5 %
  for (int phase = 0; phase <= interpolation_phases; ++phase) {
    PhaseTaps taps = {};
    double sum = 0;
    for (int tap = 0; tap < interpolation_taps; ++tap) {
      const double distance = tap - (interpolation_taps / 2 - 1) - double{1} * phase / interpolation_phases;
      const double weight = sinc(distance) * kaiser_window(distance / (interpolation_taps / 2), window_shape);
      taps[static_cast<std::size_t>(tap)] = static_cast<float>(weight);
      sum += weight;
    }
    for (auto& tap : taps) tap = static_cast<float>(tap / sum);
    interpolation_.push_back(taps);
  }

  for (std::size_t path = 0; path < fading.path_delays.size(); ++path) {
    std::vector<float> weights;
    for (int tap = 0; tap < fading.taps; ++tap) {
      weights.push_back(static_cast<float>(fading.path_magnitudes[path] * sinc(tap - fading.path_delays[path])));
    }
    paths_.push_back(std::move(weights));
  }
  // Between two evaluations the gains are drawn as straight lines; 1/1024 of the shortest Doppler period keeps the
  // error below (2π/1024)²/8 = 5·10⁻⁶ of a gain.
  constexpr double shortest_period_share = 1024;
  constexpr int longest_interval = 64;
  const double wanted =
      fading.doppler_hz > 0 ? options_.sample_rate_hz / (fading.doppler_hz * shortest_period_share) : longest_interval;
  fading_interval_ = std::clamp(static_cast<int>(std::min(wanted, double{longest_interval})), 1, longest_interval);
}

void Channel::apply(const FrameKey& key, std::span<const std::complex<float>> transmitted,
                    std::span<std::complex<float>> received) {
  float start = 0;
  double phase = 0;
  if (options_.random_start) {
    auto random = key.random(Purpose::reception);
    start = random.uniform();
    phase = 2 * pi * random.uniform();
  }
  resample(key, start, transmitted);
  rotate(key, phase);
  if (paths_.empty()) {
    for (std::size_t i = 0; i < received.size(); ++i) received[i] = {real_[i], imaginary_[i]};
  } else {
    fade(key, received);
  }
}

void Channel::resample(const FrameKey& key, float start, std::span<const std::complex<float>> transmitted) {
  const auto length = static_cast<std::size_t>(resampled_length_);
  real_.resize(length);
  imaginary_.resize(length);
  BoundedWalk offset(options_.clock_offset, key.random(Purpose::clock));
  double position = largest_drift_ + double{start};
  for (std::size_t i = 0; i < length; ++i) {
    const auto whole = static_cast<std::size_t>(position);
    const double phase = (position - static_cast<double>(whole)) * interpolation_phases;
    const auto row = static_cast<std::size_t>(phase);
    const float between = static_cast<float>(phase - static_cast<double>(row));
    const auto& before = interpolation_[row];
    const auto& after = interpolation_[row + 1];
    float real = 0;
    float imaginary = 0;
    for (std::size_t tap = 0; tap < interpolation_taps; ++tap) {
      const float weight = before[tap] + between * (after[tap] - before[tap]);
      real += weight * transmitted[whole + tap].real();
      imaginary += weight * transmitted[whole + tap].imag();
    }
    real_[i] = real;
    imaginary_[i] = imaginary;
    if (i % BoundedWalk::interval == 0) offset.advance();
    position += 1 + offset.value() / options_.sample_rate_hz;
  }
}

void Channel::rotate(const FrameKey& key, double phase) {
  BoundedWalk offset(options_.carrier_offset, key.random(Purpose::carrier));
  for (std::size_t begin = 0; begin < real_.size(); begin += BoundedWalk::interval) {
    offset.advance();
    const double turn = 2 * pi * offset.value() / options_.sample_rate_hz;
    const auto end = std::min(begin + BoundedWalk::interval, real_.size());
    for (std::size_t i = begin; i < end; ++i) {
      const auto angle = static_cast<float>(phase);
      const float cosine = std::cos(angle);
      const float sine = std::sin(angle);
      const float real = real_[i];
      real_[i] = real * cosine - imaginary_[i] * sine;
      imaginary_[i] = real * sine + imaginary_[i] * cosine;
      phase += turn;
    }
  }
}

void Channel::fade(const FrameKey& key, std::span<std::complex<float>> received) {
  auto random = key.random(Purpose::fading);
  std::vector<PathGain> gains;
  for (std::size_t path = 0; path < paths_.size(); ++path) {
    gains.emplace_back(options_.fading, options_.fading.doppler_hz / options_.sample_rate_hz, path == 0, random);
  }
  const auto taps = static_cast<std::size_t>(options_.fading.taps);
  const auto interval = static_cast<std::size_t>(fading_interval_);
  faded_real_.assign(interval, 0.0F);
  faded_imaginary_.assign(interval, 0.0F);
  auto now = filter_at(0, gains, paths_);
  for (std::size_t begin = 0; begin < received.size(); begin += interval) {
    const auto next = filter_at(static_cast<double>(begin + interval), gains, paths_);
    const auto count = std::min(interval, received.size() - begin);
    std::ranges::fill(faded_real_, 0.0F);
    std::ranges::fill(faded_imaginary_, 0.0F);
    for (std::size_t tap = 0; tap < taps; ++tap) {
      const float* real = real_.data() + begin + taps - 1 - tap;
      const float* imaginary = imaginary_.data() + begin + taps - 1 - tap;
      const float real_slope = (next.real[tap] - now.real[tap]) / static_cast<float>(interval);
      const float imaginary_slope = (next.imaginary[tap] - now.imaginary[tap]) / static_cast<float>(interval);
      for (std::size_t i = 0; i < count; ++i) {
        const float real_gain = now.real[tap] + static_cast<float>(i) * real_slope;
        const float imaginary_gain = now.imaginary[tap] + static_cast<float>(i) * imaginary_slope;
        faded_real_[i] += real_gain * real[i] - imaginary_gain * imaginary[i];
        faded_imaginary_[i] += real_gain * imaginary[i] + imaginary_gain * real[i];
      }
    }
    for (std::size_t i = 0; i < count; ++i) received[begin + i] = {faded_real_[i], faded_imaginary_[i]};
    now = next;
  }
}

}  // namespace podaq::amc
