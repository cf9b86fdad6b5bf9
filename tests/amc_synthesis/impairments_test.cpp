#include "amc/synthesis/impairments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "podaq/core/error.h"
#include "support/temporary_folder.h"

namespace podaq::amc {
namespace {

const std::filesystem::path committed_file = std::filesystem::path(PODAQ_AMC_FOLDER) / "impairments/radioml2016.toml";

std::string committed_text() {
  std::ifstream stream(committed_file);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const auto position = text.find(what);
  EXPECT_NE(position, std::string::npos) << what;
  return position == std::string::npos ? text : text.replace(position, what.size(), with);
}

/// The error that a file with this text gives, or "" if it is accepted.
std::string refusal(const std::string& text) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "impairments.toml";
  std::ofstream(path) << text;
  std::string message;
  try {
    (void)load_impairments(path);
  } catch (const Error& error) {
    message = error.what();
  }
  return message;
}

void expect_mentions(const std::string& text, const std::vector<std::string>& words) {
  for (const auto& word : words) EXPECT_NE(text.find(word), std::string::npos) << word << " is missing from: " << text;
}

// Results of different days compare only while these values stand; none of them may be made easier.
TEST(Impairments, TheCommittedFileHoldsTheChannelOfRadioMl2016) {
  const auto impairments = load_impairments(committed_file);
  EXPECT_TRUE(impairments.random_start);
  EXPECT_EQ(impairments.sample_rate_hz, 200e3);
  EXPECT_EQ(impairments.pulse.samples_per_symbol, 8);
  EXPECT_EQ(impairments.pulse.roll_off, 0.35);
  EXPECT_EQ(impairments.pulse.delay_symbols, 12);
  EXPECT_EQ(impairments.clock_offset.step_hz, 0.01);
  EXPECT_EQ(impairments.clock_offset.limit_hz, 50);
  EXPECT_EQ(impairments.clock_offset.age_samples, 320e3);
  EXPECT_EQ(impairments.carrier_offset.step_hz, 0.01);
  EXPECT_EQ(impairments.carrier_offset.limit_hz, 500);
  EXPECT_EQ(impairments.carrier_offset.age_samples, 320e3);
  EXPECT_EQ(impairments.fading.sinusoids, 8);
  EXPECT_EQ(impairments.fading.doppler_hz, 1);
  EXPECT_EQ(impairments.fading.rician_k, 4);
  EXPECT_EQ(impairments.fading.path_delays, (std::vector<double>{0, 0.9, 1.7}));
  EXPECT_EQ(impairments.fading.path_magnitudes, (std::vector<double>{1, 0.8, 0.3}));
  EXPECT_EQ(impairments.fading.taps, 8);
  EXPECT_EQ(impairments.iq_imbalance.amplitude_db, 0);
  EXPECT_EQ(impairments.iq_imbalance.phase_degrees, 0);
  EXPECT_EQ(impairments.message.low_cut_hz, 300);
  EXPECT_EQ(impairments.message.high_cut_hz, 3400);
  EXPECT_EQ(impairments.message.tilt_hz, 500);
  EXPECT_EQ(impairments.message.level_db, -16);
  EXPECT_EQ(impairments.message.level_spread_db, 6);
  EXPECT_EQ(impairments.message.pause_probability, 0.4);
  EXPECT_EQ(impairments.message.pause_level_db, -60);
  EXPECT_EQ(impairments.analog.modulation_index, 0.8);
  EXPECT_EQ(impairments.analog.frequency_deviation_hz, 75e3);
}

TEST(Impairments, AMalformedFileIsRefusedWithTheLine) {
  const auto text = committed_text();
  EXPECT_EQ(refusal(text), "");
  const auto line_of = [&](const std::string& what) {
    return "line " + std::to_string(1 + std::count(text.begin(),
                                                   text.begin() + static_cast<std::ptrdiff_t>(text.find(what)), '\n'));
  };
  expect_mentions(refusal(replaced(text, "doppler_hz", "dopler_hz")),
                  {"fading.doppler_hz", "missing", line_of("[fading]")});
  expect_mentions(refusal(replaced(text, "doppler_hz = 1.0", "doppler_hz = 1.0\nspeed = 3")),
                  {"fading.speed", "unknown"});
  expect_mentions(refusal("colour = 1\n" + text), {"colour", "unknown", "line 1"});
  expect_mentions(refusal(replaced(text, "sinusoids = 8", "sinusoids = \"eight\"")),
                  {"fading.sinusoids", "an integer", line_of("sinusoids = 8")});
  expect_mentions(refusal(replaced(text, "taps = 8", "taps = 8.5")), {"fading.taps", "an integer"});
  expect_mentions(refusal(replaced(text, "[1.0, 0.8, 0.3]", "[1.0, \"a\", 0.3]")),
                  {"fading.path_magnitudes", "array of numbers"});
  expect_mentions(refusal(replaced(text, "[analog]", "[analog")), {line_of("[analog]")});
  expect_mentions(refusal("pulse = 3\n"), {"sample_rate_hz", "missing"});
  try {
    (void)load_impairments("/nonexistent.toml");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
  }
}

TEST(Impairments, ValuesOutOfRangeAreRefusedByName) {
  const auto refused = [](auto change) {
    auto impairments = load_impairments(committed_file);
    change(impairments);
    try {
      validate(impairments);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect_mentions(refused([](Impairments& i) { i.pulse.samples_per_symbol = 7; }), {"pulse.samples_per_symbol"});
  expect_mentions(refused([](Impairments& i) { i.pulse.roll_off = 0; }), {"pulse.roll_off"});
  expect_mentions(refused([](Impairments& i) { i.pulse.delay_symbols = 1000; }), {"pulse.delay_symbols"});
  expect_mentions(refused([&](Impairments& i) { i.sample_rate_hz = nan; }), {"sample_rate_hz"});
  expect_mentions(refused([](Impairments& i) { i.clock_offset.limit_hz = 1e5; }), {"clock_offset.limit_hz"});
  expect_mentions(refused([&](Impairments& i) { i.carrier_offset.step_hz = nan; }), {"carrier_offset.step_hz"});
  expect_mentions(refused([](Impairments& i) { i.fading.path_delays[2] = 7.5; }), {"fading.path_delays"});
  expect_mentions(refused([](Impairments& i) { i.fading.path_magnitudes.pop_back(); }), {"fading.path_magnitudes"});
  expect_mentions(refused([](Impairments& i) { i.fading.path_magnitudes = {0, 0, 0}; }), {"fading.path_magnitudes"});
  expect_mentions(refused([](Impairments& i) { i.message.high_cut_hz = 20e3; }), {"message.high_cut_hz"});
  expect_mentions(refused([](Impairments& i) { i.message.pause_probability = 1.5; }), {"message.pause_probability"});
  expect_mentions(refused([](Impairments& i) { i.analog.modulation_index = 2; }), {"analog.modulation_index"});
  expect_mentions(refused([](Impairments& i) { i.fading.sinusoids = -1; }), {"fading.sinusoids"});
  expect_mentions(refused([](Impairments& i) { i.iq_imbalance.amplitude_db = -1; }), {"iq_imbalance.amplitude_db"});
  expect_mentions(refused([&](Impairments& i) { i.iq_imbalance.phase_degrees = nan; }), {"iq_imbalance.phase_degrees"});
  EXPECT_EQ(refused([](Impairments&) {}), "accepted");
  validate(Impairments{});
}

}  // namespace
}  // namespace podaq::amc
