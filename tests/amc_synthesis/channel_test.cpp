#include "amc/synthesis/channel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace podaq::amc {
namespace {

using Samples = std::vector<std::complex<float>>;

constexpr double pi = std::numbers::pi;

Samples tone(int length, double cycles_per_sample) {
  Samples samples;
  for (int i = 0; i < length; ++i) samples.emplace_back(std::polar(1.0, 2 * pi * cycles_per_sample * i));
  return samples;
}

/// A channel and the tone that goes through it.
class Receiver {
 public:
  Receiver(const Impairments& impairments, int length, double cycles_per_sample)
      : channel_(impairments, length),
        sent_(tone(channel_.input_length(), cycles_per_sample)),
        received_(static_cast<std::size_t>(length)) {}

  const Samples& frame(std::uint32_t index) {
    channel_.apply({.seed = 21, .index = index}, sent_, received_);
    return received_;
  }

 private:
  Channel channel_;
  Samples sent_;
  Samples received_;
};

/// Mean rotation from sample to sample, in cycles.
double frequency(const Samples& samples) {
  std::complex<double> sum = 0;
  for (std::size_t i = 0; i + 1 < samples.size(); ++i) {
    sum += std::complex<double>(samples[i + 1]) * std::conj(std::complex<double>(samples[i]));
  }
  return std::arg(sum) / (2 * pi);
}

Fading one_path(double delay, double rician_k) {
  return {.doppler_hz = 1, .rician_k = rician_k, .path_delays = {delay}, .path_magnitudes = {1}, .taps = 8};
}

TEST(Channel, WithoutImpairmentsOnlyDelays) {
  Channel channel({}, 50);
  const auto sent = tone(channel.input_length(), 0.123);
  Samples received(50);
  channel.apply({}, sent, received);
  for (std::size_t i = 0; i < received.size(); ++i) EXPECT_NEAR(std::abs(received[i] - sent[i + 3]), 0, 1e-6);
}

TEST(Channel, ARandomStartMovesTimeByLessThanASampleAndPhaseAllRound) {
  const Impairments impairments{.random_start = true};
  Receiver slow_receiver(impairments, 1, 0.0);
  Receiver fast_receiver(impairments, 1, 0.125);
  double earliest = 1, latest = 0;
  double smallest_phase = 2 * pi, largest_phase = 0;
  for (std::uint32_t index = 0; index < 400; ++index) {
    // Two tones tell a time from a phase.
    const auto& slow = slow_receiver.frame(index);
    const auto& fast = fast_receiver.frame(index);
    const double phase = std::arg(std::complex<double>(slow[0]));
    const double time =
        std::remainder(
            std::arg(std::complex<double>(fast[0]) * std::conj(std::complex<double>(slow[0]))) / (2 * pi * 0.125) - 3.5,
            8.0) +
        0.5;
    EXPECT_NEAR(std::abs(fast[0]), 1, 0.01);
    earliest = std::min(earliest, time);
    latest = std::max(latest, time);
    smallest_phase = std::min(smallest_phase, phase);
    largest_phase = std::max(largest_phase, phase);
  }
  EXPECT_NEAR(earliest, 0, 0.02);
  EXPECT_NEAR(latest, 1, 0.02);
  EXPECT_NEAR(smallest_phase, -pi, 0.1);
  EXPECT_NEAR(largest_phase, pi, 0.1);
}

TEST(Channel, ACarrierOffsetGrowsWithTheWalksAgeUpToItsLimit) {
  const auto spread = [](double age) {
    const Impairments impairments{.carrier_offset = {.step_hz = 0.01, .limit_hz = 500, .age_samples = age}};
    Receiver receiver(impairments, 128, 0.01);
    double square = 0;
    double largest = 0;
    for (std::uint32_t index = 0; index < 500; ++index) {
      const double offset = frequency(receiver.frame(index)) * 200e3 - 0.01 * 200e3;
      square += offset * offset;
      largest = std::max(largest, std::abs(offset));
    }
    EXPECT_LE(largest, 500.5);
    return std::sqrt(square / 500);
  };
  // A walk of age n has the variance 0.01²·n; n is uniform, so on average half of the oldest.
  EXPECT_NEAR(spread(4e6), 0.01 * std::sqrt(2e6), 2.5);
  // In the long run it is uniform: 500/√3.
  EXPECT_NEAR(spread(1e14), 500 / std::sqrt(3), 30);
}

TEST(Channel, AClockOffsetStretchesTime) {
  const Impairments impairments{.clock_offset = {.step_hz = 0.01, .limit_hz = 200, .age_samples = 1e14}};
  Receiver receiver(impairments, 8192, 0.05);
  double largest = 0;
  for (std::uint32_t index = 0; index < 40; ++index) {
    const double stretch = frequency(receiver.frame(index)) / 0.05 - 1;
    EXPECT_LE(std::abs(stretch), 200 / 200e3 * 1.01);
    largest = std::max(largest, std::abs(stretch));
  }
  EXPECT_GT(largest, 0.8 * 200 / 200e3);
}

TEST(Channel, TheInterpolatorKeepsTonesInTheBand) {
  for (const double cycles : {-0.3, -0.1, 0.0, 0.05, 0.2, 0.3}) {
    Receiver receiver({.random_start = true}, 8, cycles);
    for (std::uint32_t index = 0; index < 20; ++index) {
      for (const auto& sample : receiver.frame(index)) EXPECT_NEAR(std::abs(sample), 1, 0.005) << cycles;
    }
  }
}

TEST(Channel, APathDelaysByWholeSamplesUnderASteadyGain) {
  // An overwhelming line of sight: the gain has modulus 1.
  const Impairments impairments{.fading = one_path(2, 1e9)};
  Channel channel(impairments, 40);
  const auto sent = tone(channel.input_length(), 0.07);
  Samples received(40);
  channel.apply({}, sent, received);
  const auto gain = received[0] / sent[3 + 7 - 2];
  EXPECT_NEAR(std::abs(gain), 1, 1e-3);
  for (std::size_t i = 0; i < received.size(); ++i) {
    EXPECT_NEAR(std::abs(received[i] - gain * sent[i + 3 + 7 - 2]), 0, 2e-3);
  }
}

TEST(Channel, FadingHasTheMomentsOfRiceAndRayleigh) {
  const auto moments = [](double rician_k) {
    const Impairments impairments{.fading = one_path(0, rician_k)};
    Receiver receiver(impairments, 1, 0.0);
    double second = 0, fourth = 0;
    constexpr int frames = 6000;
    for (std::uint32_t index = 0; index < frames; ++index) {
      const double power = std::norm(receiver.frame(index)[0]);
      second += power / frames;
      fourth += power * power / frames;
    }
    return std::pair(second, fourth);
  };
  // E|h|² = 1, E|h|⁴ = 1 + (1 + 2K)/(1 + K)²; eight sinusoids stay a little below for Rayleigh: 2 − 1/16.
  const auto [rayleigh_second, rayleigh_fourth] = moments(0);
  EXPECT_NEAR(rayleigh_second, 1, 0.06);
  EXPECT_NEAR(rayleigh_fourth, 2, 0.25);
  const auto [rice_second, rice_fourth] = moments(4);
  EXPECT_NEAR(rice_second, 1, 0.04);
  EXPECT_NEAR(rice_fourth, 1 + 9.0 / 25, 0.1);
}

TEST(Channel, FadingMovesAsFastAsTheDopplerShift) {
  auto impairments = Impairments{.fading = one_path(0, 0)};
  const auto change = [&](double doppler_hz) {
    impairments.fading.doppler_hz = doppler_hz;
    Receiver receiver(impairments, 1024, 0.0);
    double sum = 0;
    for (std::uint32_t index = 0; index < 300; ++index) {
      const auto& received = receiver.frame(index);
      sum += std::norm(received.back() - received.front()) / 300;
    }
    return sum;
  };
  // Clarke's autocorrelation J0(2π·f·t): for small f·t the mean square change is (2π·f·t)²/2.
  const double turn = 2 * pi * 1023 / 200e3;
  EXPECT_NEAR(change(1) / (turn * turn / 2), 1, 0.25);
  EXPECT_NEAR(change(10) / (100 * turn * turn / 2), 1, 0.25);
}

TEST(Channel, SamplesBetweenTwoGainsFollowTheCurve) {
  // A fast Doppler shift on a pure line of sight is one rotating vector: its modulus must not dip between gains.
  auto fading = one_path(0, 1e12);
  fading.doppler_hz = 200;
  Receiver receiver({.fading = fading}, 1000, 0.0);
  for (const auto& sample : receiver.frame(3)) EXPECT_NEAR(std::abs(sample), 1, 1e-4);
}

TEST(Channel, WithoutFadingThePathsStandStillAndWithoutMultipathOneIsLeft) {
  Impairments impairments = {.fading = one_path(0, 4)};
  impairments.fading.path_delays = {0, 2};
  impairments.fading.path_magnitudes = {1, 0.5};
  const double frequency = 0.11;
  // Two paths that stand still: the tone comes out with one gain, 1 + e^(−j2πf·2)/2, in every frame.
  Receiver still(without(impairments, Impairment::fading), 64, frequency);
  const double expected = std::abs(1.0 + 0.5 * std::polar(1.0, -2 * pi * frequency * 2));
  for (std::uint32_t index = 0; index < 5; ++index) {
    for (const auto& sample : still.frame(index)) EXPECT_NEAR(std::abs(sample), expected, 1e-3);
  }
  Receiver plain(without(without(impairments, Impairment::fading), Impairment::multipath), 64, frequency);
  for (const auto& sample : plain.frame(0)) EXPECT_NEAR(std::abs(sample), 1, 1e-3);
  // With fading alone the one path's gain differs from frame to frame.
  Receiver fading(without(impairments, Impairment::multipath), 64, frequency);
  const auto first = std::abs(fading.frame(0)[0]);
  EXPECT_GT(std::abs(std::abs(fading.frame(1)[0]) - first), 1e-3);
}

TEST(Channel, OffsetsCanBeSpared) {
  const Impairments impairments = {.clock_offset = {.step_hz = 1, .limit_hz = 500, .age_samples = 1e6},
                                   .carrier_offset = {.step_hz = 1, .limit_hz = 500, .age_samples = 1e6}};
  EXPECT_EQ(without(impairments, Impairment::carrier_offset).carrier_offset.limit_hz, 0);
  EXPECT_EQ(without(impairments, Impairment::carrier_offset).clock_offset.limit_hz, 500);
  EXPECT_EQ(without(impairments, Impairment::clock_offset).clock_offset.limit_hz, 0);
  EXPECT_EQ(without(impairments, Impairment::clock_offset).carrier_offset.limit_hz, 500);
}

}  // namespace
}  // namespace podaq::amc
