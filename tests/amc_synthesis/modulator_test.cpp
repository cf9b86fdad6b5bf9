#include "amc/synthesis/modulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "amc/synthesis/liquid_handle.h"

namespace podaq::amc {
namespace {

using Samples = std::vector<std::complex<float>>;

constexpr int samples_per_symbol = 8;

Samples transmit(Modulation modulation, std::size_t length, std::uint32_t stream = 0,
                 const Impairments& impairments = {}) {
  Modulator modulator(modulation, impairments);
  Samples out(length);
  modulator.generate(CounterRandom({.seed = 11, .words = {stream, 0, 0}}), 0, out);
  return out;
}

double power(const Samples& samples) {
  double sum = 0;
  for (const auto& sample : samples) sum += std::norm(sample);
  return sum / static_cast<double>(samples.size());
}

/// The samples after the receiver's half of the root raised cosine, scaled so that symbols come out as sent.
Samples matched_filtered(const Samples& samples) {
  constexpr unsigned delay = 12;
  std::vector<float> taps(2 * samples_per_symbol * delay + 1);
  liquid_firdes_prototype(LIQUID_FIRFILT_RRC, samples_per_symbol, delay, 0.35F, 0.0F, taps.data());
  double energy = 0;
  for (const float tap : taps) energy += tap * tap;
  Samples out;
  for (std::size_t i = 0; i + taps.size() <= samples.size(); ++i) {
    std::complex<double> sum = 0;
    for (std::size_t tap = 0; tap < taps.size(); ++tap)
      sum += std::complex<double>(samples[i + tap]) * double{taps[tap]};
    out.emplace_back(sum / energy);
  }
  return out;
}

struct LinearCase {
  Modulation modulation;
  modulation_scheme scheme;
  std::string name;

  friend void PrintTo(const LinearCase& linear_case, std::ostream* out) { *out << linear_case.name; }
};

class LinearModulation : public testing::TestWithParam<LinearCase> {};

// The receiver finds every point of the constellation, and nothing but its points.
TEST_P(LinearModulation, TheMatchedFilterGivesBackTheConstellation) {
  LiquidHandle<modemcf, modemcf_destroy> modem(modemcf_create(GetParam().scheme));
  const auto points = std::size_t{1} << modemcf_get_bps(modem.get());
  const auto received = matched_filtered(transmit(GetParam().modulation, samples_per_symbol * (points * 12 + 100)));
  double best_error = 1;
  std::set<unsigned> best_symbols;
  for (std::size_t phase = 0; phase < samples_per_symbol; ++phase) {
    double error = 0;
    std::set<unsigned> symbols;
    std::size_t count = 0;
    for (std::size_t i = phase; i < received.size(); i += samples_per_symbol, ++count) {
      unsigned symbol = 0;
      std::complex<float> nearest;
      modemcf_demodulate(modem.get(), received[i], &symbol);
      modemcf_modulate(modem.get(), symbol, &nearest);
      error += std::norm(received[i] - nearest);
      symbols.insert(symbol);
    }
    error = std::sqrt(error / static_cast<double>(count));
    if (error < best_error) {
      best_error = error;
      best_symbols = symbols;
    }
  }
  EXPECT_LT(best_error, 0.01);
  EXPECT_EQ(best_symbols.size(), points);
}

INSTANTIATE_TEST_SUITE_P(AllSchemes, LinearModulation,
                         testing::Values(LinearCase{Modulation::ook, LIQUID_MODEM_OOK, "OOK"},
                                         LinearCase{Modulation::ask4, LIQUID_MODEM_ASK4, "ASK4"},
                                         LinearCase{Modulation::ask8, LIQUID_MODEM_ASK8, "ASK8"},
                                         LinearCase{Modulation::bpsk, LIQUID_MODEM_BPSK, "BPSK"},
                                         LinearCase{Modulation::qpsk, LIQUID_MODEM_QPSK, "QPSK"},
                                         LinearCase{Modulation::psk8, LIQUID_MODEM_PSK8, "PSK8"},
                                         LinearCase{Modulation::psk16, LIQUID_MODEM_PSK16, "PSK16"},
                                         LinearCase{Modulation::psk32, LIQUID_MODEM_PSK32, "PSK32"},
                                         LinearCase{Modulation::apsk16, LIQUID_MODEM_APSK16, "APSK16"},
                                         LinearCase{Modulation::apsk32, LIQUID_MODEM_APSK32, "APSK32"},
                                         LinearCase{Modulation::apsk64, LIQUID_MODEM_APSK64, "APSK64"},
                                         LinearCase{Modulation::apsk128, LIQUID_MODEM_APSK128, "APSK128"},
                                         LinearCase{Modulation::qam16, LIQUID_MODEM_QAM16, "QAM16"},
                                         LinearCase{Modulation::qam32, LIQUID_MODEM_SQAM32, "QAM32"},
                                         LinearCase{Modulation::qam64, LIQUID_MODEM_QAM64, "QAM64"},
                                         LinearCase{Modulation::qam128, LIQUID_MODEM_SQAM128, "QAM128"},
                                         LinearCase{Modulation::qam256, LIQUID_MODEM_QAM256, "QAM256"}),
                         [](const auto& instance) { return instance.param.name; });

TEST(Modulator, KeyedSignalsHaveUnitPower) {
  for (const auto set : {ClassSet::radioml2016, ClassSet::radioml2018}) {
    for (const auto& named : classes(set)) {
      const std::string name = named.name;
      if (name.starts_with("AM") || name == "FM" || name == "WBFM") continue;
      EXPECT_NEAR(power(transmit(named.modulation, 32768)), 1, 0.05) << name;
    }
  }
}

TEST(Modulator, AllClassesStartInMidTransmission) {
  for (const auto& named : classes(ClassSet::radioml2018)) {
    // The power of the first eighth, over many frames, is that of the last eighth: no ramp is left.
    double first = 0;
    double last = 0;
    Modulator modulator(named.modulation, {});
    Samples out(256);
    for (std::uint32_t frame = 0; frame < 600; ++frame) {
      modulator.generate(CounterRandom({.seed = 12, .words = {frame, 0, 0}}), 0, out);
      for (std::size_t i = 0; i < 32; ++i) {
        first += std::norm(out[i]);
        last += std::norm(out[out.size() - 1 - i]);
      }
    }
    EXPECT_NEAR(first / last, 1, 0.15) << named.name;
  }
}

TEST(Modulator, StartShiftsTheTransmissionBySamples) {
  for (const auto& named : classes(ClassSet::radioml2018)) {
    Modulator modulator(named.modulation, {});
    Samples whole(64), later(64);
    modulator.generate(CounterRandom({.seed = 13}), 0, whole);
    modulator.generate(CounterRandom({.seed = 13}), 5, later);
    EXPECT_TRUE(std::equal(whole.begin() + 5, whole.end(), later.begin())) << named.name;
  }
}

TEST(Modulator, OffsetQpskMovesOneAxisAtATime) {
  const auto received = matched_filtered(transmit(Modulation::oqpsk, 4096));
  const auto deviation = [&](std::size_t phase, auto axis) {
    double worst = 0;
    for (std::size_t i = phase; i < received.size(); i += samples_per_symbol) {
      worst = std::max<double>(worst, std::abs(std::abs(axis(received[i])) - std::sqrt(0.5F)));
    }
    return worst;
  };
  const auto best_phase = [&](auto axis) {
    std::size_t best = 0;
    for (std::size_t phase = 1; phase < samples_per_symbol; ++phase) {
      if (deviation(phase, axis) < deviation(best, axis)) best = phase;
    }
    EXPECT_LT(deviation(best, axis), 0.05);
    return best;
  };
  const auto real_phase = best_phase([](std::complex<float> value) { return value.real(); });
  const auto imaginary_phase = best_phase([](std::complex<float> value) { return value.imag(); });
  EXPECT_EQ((imaginary_phase + samples_per_symbol - real_phase) % samples_per_symbol, samples_per_symbol / 2U);
}

double turn(const Samples& samples, std::size_t i, std::size_t by) {
  return std::arg(std::complex<double>(samples[i + by]) * std::conj(std::complex<double>(samples[i])));
}

TEST(Modulator, FrequencyKeyingHasConstantEnvelopeAndContinuousPhase) {
  for (const auto modulation : {Modulation::gmsk, Modulation::gfsk, Modulation::cpfsk}) {
    const auto samples = transmit(modulation, 4096);
    double largest_step = 0;
    for (std::size_t i = 0; i + 1 < samples.size(); ++i) {
      EXPECT_NEAR(std::norm(samples[i]), 1, 1e-3);
      largest_step = std::max(largest_step, std::abs(turn(samples, i, 1)));
    }
    // Index 1/2: a quarter turn a symbol.
    EXPECT_NEAR(largest_step, std::numbers::pi / 2 / samples_per_symbol, 0.01);
  }
}

TEST(Modulator, CpfskSwitchesItsFrequencyAtOnceAndGfskGlides) {
  const auto share_at_full_deviation = [](Modulation modulation) {
    const auto samples = transmit(modulation, 8192);
    int full = 0;
    for (std::size_t i = 0; i + 1 < samples.size(); ++i) {
      full += std::abs(std::abs(turn(samples, i, 1)) - std::numbers::pi / 2 / samples_per_symbol) < 0.01;
    }
    return full / 8191.0;
  };
  EXPECT_GT(share_at_full_deviation(Modulation::cpfsk), 0.99);
  EXPECT_LT(share_at_full_deviation(Modulation::gfsk), 0.6);
}

/// Power above and below the carrier, which is left out.
std::pair<double, double> sideband_powers(const Samples& samples) {
  const auto length = samples.size();
  std::pair<double, double> powers;
  for (std::size_t bin = 1; bin < 200; ++bin) {
    std::complex<double> above = 0;
    std::complex<double> below = 0;
    for (std::size_t i = 0; i < length; ++i) {
      const double position = static_cast<double>(i) / static_cast<double>(length);
      const double window = 0.5 - 0.5 * std::cos(2 * std::numbers::pi * position);
      const auto wave = std::polar(window, -2 * std::numbers::pi * static_cast<double>(bin) * position);
      above += std::complex<double>(samples[i]) * wave;
      below += std::complex<double>(samples[i]) * std::conj(wave) * 1.0;
    }
    if (bin < 4) continue;  // where the window spreads the carrier
    powers.first += std::norm(above);
    powers.second += std::norm(below);
  }
  return powers;
}

Impairments speaking() {
  Impairments impairments;
  impairments.message.level_spread_db = 0;
  return impairments;
}

TEST(Modulator, SingleSidebandHasOneSideband) {
  for (const auto modulation : {Modulation::am_ssb_sc, Modulation::am_ssb_wc}) {
    const auto [above, below] = sideband_powers(transmit(modulation, 8192, 0, speaking()));
    EXPECT_GT(10 * std::log10(above / below), 20);
  }
}

TEST(Modulator, DoubleSidebandIsRealAndBalanced) {
  for (const auto modulation : {Modulation::am_dsb_sc, Modulation::am_dsb_wc}) {
    const auto samples = transmit(modulation, 8192, 0, speaking());
    const auto [above, below] = sideband_powers(samples);
    EXPECT_NEAR(above / below, 1, 1e-3);
    for (const auto& sample : samples) EXPECT_EQ(sample.imag(), 0);
  }
}

TEST(Modulator, TheCarrierIsThereOrSuppressed) {
  const auto carrier = [](Modulation modulation) {
    std::complex<double> sum = 0;
    const auto samples = transmit(modulation, 16384, 0, speaking());
    for (const auto& sample : samples) sum += std::complex<double>(sample);
    return std::abs(sum) / 16384;
  };
  EXPECT_NEAR(carrier(Modulation::am_dsb_wc), 1, 0.02);
  EXPECT_NEAR(carrier(Modulation::am_ssb_wc), 1, 0.02);
  EXPECT_LT(carrier(Modulation::am_dsb_sc), 0.02);
  EXPECT_LT(carrier(Modulation::am_ssb_sc), 0.02);
}

TEST(Modulator, FrequencyModulationKeepsItsDeviation) {
  auto impairments = speaking();
  impairments.message.level_db = 0;  // clips now and then: the message reaches full scale
  const auto samples = transmit(Modulation::fm, 32768, 0, impairments);
  double largest = 0;
  for (std::size_t i = 0; i + 1 < samples.size(); ++i) {
    EXPECT_NEAR(std::norm(samples[i]), 1, 1e-2);
    largest = std::max(largest, std::abs(turn(samples, i, 1)));
  }
  const double full_scale = 2 * std::numbers::pi * 75e3 / 200e3;
  EXPECT_NEAR(largest, full_scale, 0.2 * full_scale);
}

TEST(Modulator, TheMessageHasItsLevelAndPauses) {
  Impairments impairments;
  impairments.message.level_spread_db = 0;
  impairments.message.level_db = -20;
  impairments.message.pause_probability = 0.25;
  Modulator modulator(Modulation::am_dsb_sc, impairments);
  Samples out(4096);
  int pauses = 0;
  double speech_power = 0;
  constexpr int frames = 800;
  for (std::uint32_t frame = 0; frame < frames; ++frame) {
    modulator.generate(CounterRandom({.seed = 14, .words = {frame, 0, 0}}), 0, out);
    const bool paused = power(out) < 1e-4;
    pauses += paused;
    if (!paused) speech_power += power(out);
  }
  EXPECT_NEAR(pauses, 0.25 * frames, 5 * std::sqrt(0.25 * 0.75 * frames));
  EXPECT_NEAR(10 * std::log10(speech_power / (frames - pauses) / 0.64), -20, 0.5);
}

TEST(ClassSet, HasTheClassesGridAndLengthOfRadioMl) {
  const auto names = [](ClassSet set) {
    std::vector<std::string> out;
    for (const auto& named : classes(set)) out.emplace_back(named.name);
    return out;
  };
  EXPECT_EQ(names(ClassSet::radioml2016), (std::vector<std::string>{"8PSK", "AM-DSB", "AM-SSB", "BPSK", "CPFSK", "GFSK",
                                                                    "PAM4", "QAM16", "QAM64", "QPSK", "WBFM"}));
  EXPECT_EQ(names(ClassSet::radioml2018),
            (std::vector<std::string>{"OOK",       "4ASK",      "8ASK",      "BPSK",   "QPSK",   "8PSK",
                                      "16PSK",     "32PSK",     "16APSK",    "32APSK", "64APSK", "128APSK",
                                      "16QAM",     "32QAM",     "64QAM",     "128QAM", "256QAM", "AM-SSB-WC",
                                      "AM-SSB-SC", "AM-DSB-WC", "AM-DSB-SC", "FM",     "GMSK",   "OQPSK"}));
  EXPECT_EQ(snr_grid(ClassSet::radioml2016).size(), 20U);
  EXPECT_EQ(snr_grid(ClassSet::radioml2016).back(), 18);
  EXPECT_EQ(snr_grid(ClassSet::radioml2018).size(), 26U);
  EXPECT_EQ(snr_grid(ClassSet::radioml2018).front(), -20);
  EXPECT_EQ(snr_grid(ClassSet::radioml2018).back(), 30);
  EXPECT_EQ(frame_length(ClassSet::radioml2016), 128);
  EXPECT_EQ(frame_length(ClassSet::radioml2018), 1024);
}

}  // namespace
}  // namespace podaq::amc
