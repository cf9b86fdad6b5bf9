#include "amc/synthesis/synthesizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numbers>
#include <stdexcept>

#include "podaq/core/error.h"

namespace podaq::amc {
namespace {

const Impairments& committed() {
  static const Impairments impairments =
      load_impairments(std::filesystem::path(PODAQ_AMC_FOLDER) / "impairments/radioml2016.toml");
  return impairments;
}

SynthesisOptions small_options(ClassSet set) {
  return {.set = set,
          .frame_length = 96,
          .snrs_db = {-20, 0, 18},
          .frames_per_cell = 7,
          .seed = 31,
          .impairments = committed()};
}

TEST(Synthesize, TheBytesDoNotDependOnTheNumberOfThreads) {
  for (const auto set : {ClassSet::radioml2016, ClassSet::radioml2018}) {
    auto options = small_options(set);
    options.threads = 1;
    const auto alone = synthesize(options);
    validate(alone, "synthesized");
    for (const int threads : {2, 16}) {
      options.threads = threads;
      const auto together = synthesize(options);
      EXPECT_EQ(together.samples, alone.samples) << threads;
      EXPECT_EQ(together.labels, alone.labels) << threads;
      EXPECT_EQ(together.groups, alone.groups) << threads;
    }
  }
}

TEST(Synthesize, EveryRowCanBeMadeAloneAndInAnyOrder) {
  for (const auto set : {ClassSet::radioml2016, ClassSet::radioml2018}) {
    const auto options = small_options(set);
    const auto dataset = synthesize(options);
    Synthesizer synthesizer(options.impairments, options.frame_length);
    std::vector<float> frame(static_cast<std::size_t>(options.frame_length) * 2);
    for (auto row = dataset.size() - 1; row >= 0; row -= 5) {
      const auto position = static_cast<std::size_t>(row);
      const FrameKey key{.seed = options.seed,
                         .modulation = classes(set)[static_cast<std::size_t>(dataset.labels[position])].modulation,
                         .snr_db = dataset.groups[position],
                         .index = static_cast<std::uint32_t>(row % options.frames_per_cell)};
      synthesizer.frame(key, frame);
      EXPECT_TRUE(std::ranges::equal(frame, dataset.sample(row))) << row;
      Synthesizer(options.impairments, options.frame_length).frame(key, frame);
      EXPECT_TRUE(std::ranges::equal(frame, dataset.sample(row))) << row;
    }
  }
}

TEST(Synthesize, EveryCellHoldsItsCountInTheOrderOfRadioMl2018) {
  auto options = standard_options(ClassSet::radioml2016, 3, 32, committed());
  const auto dataset = synthesize(options);
  EXPECT_EQ(dataset.size(), 11 * 20 * 3);
  EXPECT_EQ(dataset.sample_shape, (std::vector<std::int64_t>{2, 128}));
  for (std::int64_t row = 0; row < dataset.size(); ++row) {
    const auto position = static_cast<std::size_t>(row);
    ASSERT_EQ(dataset.labels[position], row / 60);
    ASSERT_EQ(dataset.groups[position], -20 + 2 * (row / 3 % 20));
  }
  options.frames_per_cell = 0;
  EXPECT_EQ(synthesize(options).size(), 0);
}

TEST(Synthesize, EveryPartOfTheKeyChangesTheFrame) {
  Synthesizer synthesizer(committed(), 64);
  const auto frame = [&](const FrameKey& key) {
    std::vector<float> out(128);
    synthesizer.frame(key, out);
    return out;
  };
  for (const auto& named : classes(ClassSet::radioml2018)) {
    const FrameKey key{.seed = 33, .modulation = named.modulation, .snr_db = 30, .index = 4};
    const auto base = frame(key);
    EXPECT_EQ(frame(key), base) << named.name;
    for (const auto& [seed, snr, index] : {std::tuple{34U, 30, 4U}, {33U, 28, 4U}, {33U, 30, 5U}}) {
      EXPECT_NE(frame({.seed = seed, .modulation = named.modulation, .snr_db = snr, .index = index}), base)
          << named.name;
    }
    for (const auto& other : classes(ClassSet::radioml2018)) {
      if (other.modulation == named.modulation) continue;
      EXPECT_NE(frame({.seed = 33, .modulation = other.modulation, .snr_db = 30, .index = 4}), base) << other.name;
    }
  }
}

TEST(Synthesize, EveryFrameHasUnitPower) {
  const auto dataset = synthesize(small_options(ClassSet::radioml2018));
  for (std::int64_t row = 0; row < dataset.size(); ++row) {
    double power = 0;
    for (const float value : dataset.sample(row)) power += double{value} * value;
    ASSERT_NEAR(power / 96, 1, 1e-4) << row;
  }
}

// The label is the ratio of the received signal's power to the noise's, both in the sampler's whole band.
TEST(Synthesize, TheLabelIsTheSignalToNoiseRatio) {
  constexpr std::size_t length = 32768;
  Synthesizer synthesizer(committed(), length);
  std::vector<std::complex<float>> signal(length);
  std::vector<float> frame(2 * length);
  for (const auto& named : classes(ClassSet::radioml2016)) {
    for (const int snr : {-10, 0, 10, 30}) {
      const FrameKey key{.seed = 35, .modulation = named.modulation, .snr_db = snr, .index = 0};
      synthesizer.signal(key, signal);
      synthesizer.frame(key, frame);
      std::complex<double> product = 0;
      double signal_power = 0;
      for (std::size_t i = 0; i < length; ++i) {
        const std::complex<double> sent(signal[i]);
        product += std::complex<double>(frame[i], frame[length + i]) * std::conj(sent);
        signal_power += std::norm(sent);
      }
      const double scale = product.real() / signal_power;
      double noise_power = 0, real_power = 0;
      std::complex<double> last = 0, neighbours = 0;
      for (std::size_t i = 0; i < length; ++i) {
        const auto noise = std::complex<double>(frame[i], frame[length + i]) / scale - std::complex<double>(signal[i]);
        noise_power += std::norm(noise);
        real_power += noise.real() * noise.real();
        neighbours += noise * std::conj(last);
        last = noise;
      }
      EXPECT_NEAR(10 * std::log10(signal_power / noise_power), snr, 0.3) << named.name;
      EXPECT_NEAR(real_power / noise_power, 0.5, 0.02) << named.name;
      EXPECT_LT(std::abs(neighbours) / noise_power, 0.03) << named.name;
    }
  }
}

TEST(Synthesize, OptionsOutOfRangeAreRefusedByName) {
  const auto refused = [](auto change) {
    auto options = small_options(ClassSet::radioml2016);
    change(options);
    try {
      (void)synthesize(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  using Options = SynthesisOptions;
  EXPECT_NE(refused([](Options& o) { o.frame_length = 0; }).find("frame_length is 0"), std::string::npos);
  EXPECT_NE(refused([](Options& o) { o.snrs_db = {0, 2, 0}; }).find("snrs_db is 0"), std::string::npos);
  EXPECT_NE(refused([](Options& o) { o.snrs_db = {500}; }).find("snrs_db is 500"), std::string::npos);
  EXPECT_NE(refused([](Options& o) { o.frames_per_cell = -1; }).find("frames_per_cell"), std::string::npos);
  EXPECT_NE(refused([](Options& o) { o.threads = -1; }).find("threads"), std::string::npos);
  EXPECT_NE(refused([](Options& o) { o.impairments.pulse.roll_off = 7; }).find("pulse.roll_off"), std::string::npos);
}

TEST(Synthesize, ProgressReachesTheEndAndCanStopTheWork) {
  auto options = small_options(ClassSet::radioml2016);
  for (const int threads : {1, 4}) {
    options.threads = threads;
    std::int64_t last = 0;
    (void)synthesize(options, [&](std::int64_t done, std::int64_t total) {
      EXPECT_EQ(total, 11 * 3 * 7);
      EXPECT_GT(done, last);
      EXPECT_LE(done, total);
      last = done;
    });
    EXPECT_EQ(last, 11 * 3 * 7);
    EXPECT_THROW((void)synthesize(options, [](std::int64_t, std::int64_t) { throw std::runtime_error("enough"); }),
                 std::runtime_error);
  }
}

// A circular signal of unequal branches: its parts have powers of the ratio g⁴, and their correlation tells the angle.
TEST(Synthesizer, IqImbalanceStaysWithinItsBoundsAndReachesThem) {
  const Impairments impairments = {.iq_imbalance = {.amplitude_db = 3, .phase_degrees = 10}};
  constexpr int length = 1 << 15;
  Synthesizer synthesizer(impairments, length);
  std::vector<float> frame(2 * length);
  double largest_gain = 0, largest_angle = 0;
  for (std::uint32_t index = 0; index < 40; ++index) {
    synthesizer.frame({.seed = 5, .modulation = Modulation::qpsk, .snr_db = -20, .index = index}, frame);
    double real = 0, imaginary = 0, both = 0;
    for (std::size_t i = 0; i < length; ++i) {
      real += frame[i] * frame[i];
      imaginary += frame[length + i] * frame[length + i];
      both += frame[i] * frame[length + i];
    }
    const double gain_db = std::abs(10 * std::log10(real / imaginary));
    const double angle = std::abs(std::asin(both / std::sqrt(real * imaginary))) * 180 / std::numbers::pi;
    EXPECT_LT(gain_db, 3.3);
    EXPECT_LT(angle, 11.5);
    largest_gain = std::max(largest_gain, gain_db);
    largest_angle = std::max(largest_angle, angle);
  }
  EXPECT_GT(largest_gain, 2.5);
  EXPECT_GT(largest_angle, 8);
}

}  // namespace
}  // namespace podaq::amc
