#include "amc/synthesis/impairments.h"

#include <toml++/toml.h>

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "podaq/core/error.h"
#include "podaq/core/text.h"

namespace podaq::amc {

namespace {

void require(bool holds, std::string_view field, double value, std::string_view range) {
  if (holds) return;
  throw Error(ErrorCode::invalid_argument, concat("Impairments.", field, " is ", value, "; it must be ", range));
}

void validate_walk(const FrequencyWalk& walk, std::string_view name, double sample_rate_hz) {
  require(walk.step_hz >= 0 && std::isfinite(walk.step_hz), concat(name, ".step_hz"), walk.step_hz, "0 or more");
  require(walk.limit_hz >= 0 && walk.limit_hz <= sample_rate_hz / 8, concat(name, ".limit_hz"), walk.limit_hz,
          "in [0, sample_rate_hz / 8]");
  require(walk.age_samples >= 0 && std::isfinite(walk.age_samples), concat(name, ".age_samples"), walk.age_samples,
          "0 or more");
}

void validate_fading(const Fading& fading, double sample_rate_hz) {
  require(fading.sinusoids >= 0 && fading.sinusoids <= 1024, "fading.sinusoids", fading.sinusoids, "in [0, 1024]");
  require(fading.doppler_hz >= 0 && fading.doppler_hz <= sample_rate_hz / 1000, "fading.doppler_hz", fading.doppler_hz,
          "in [0, sample_rate_hz / 1000]");
  require(fading.rician_k >= 0 && std::isfinite(fading.rician_k), "fading.rician_k", fading.rician_k, "0 or more");
  require(fading.taps >= 1 && fading.taps <= 64, "fading.taps", fading.taps, "in [1, 64]");
  require(fading.path_magnitudes.size() == fading.path_delays.size(), "fading.path_magnitudes (count)",
          static_cast<double>(fading.path_magnitudes.size()), "one for each of path_delays");
  for (const double delay : fading.path_delays) {
    require(delay >= 0 && delay <= fading.taps - 1, "fading.path_delays", delay, "in [0, taps - 1]");
  }
  double sum = 0;
  for (const double magnitude : fading.path_magnitudes) {
    require(magnitude >= 0 && std::isfinite(magnitude), "fading.path_magnitudes", magnitude, "0 or more");
    sum += magnitude;
  }
  require(fading.path_magnitudes.empty() || sum > 0, "fading.path_magnitudes (sum)", sum, "more than 0");
}

void validate_message(const Message& message, double message_rate_hz) {
  require(message.low_cut_hz > 0 && message.low_cut_hz < message.high_cut_hz, "message.low_cut_hz", message.low_cut_hz,
          "in (0, high_cut_hz)");
  require(message.high_cut_hz < message_rate_hz / 2, "message.high_cut_hz", message.high_cut_hz,
          "below half the message's rate, sample_rate_hz / samples_per_symbol / 2");
  require(message.tilt_hz > 0 && std::isfinite(message.tilt_hz), "message.tilt_hz", message.tilt_hz, "more than 0");
  require(message.level_db <= 0, "message.level_db", message.level_db, "0 or less");
  require(message.level_spread_db >= 0 && std::isfinite(message.level_spread_db), "message.level_spread_db",
          message.level_spread_db, "0 or more");
  require(message.pause_probability >= 0 && message.pause_probability <= 1, "message.pause_probability",
          message.pause_probability, "in [0, 1]");
  require(message.pause_level_db <= 0, "message.pause_level_db", message.pause_level_db, "0 or less");
}

/// Reads one table key by key and knows in the end which keys nobody asked for.
class TableReader {
 public:
  TableReader(const toml::table& table, std::string file, std::string prefix)
      : table_(table), file_(std::move(file)), prefix_(std::move(prefix)) {}

  void read(std::string_view key, double& field) { field = value<double>(key, "a number"); }
  void read(std::string_view key, int& field) { field = value<int>(key, "an integer"); }

  void read(std::string_view key, std::vector<double>& field) {
    const auto& node = find(key);
    if (!node.is_array()) refuse(node.source(), key, "must be an array of numbers");
    field.clear();
    for (const auto& element : *node.as_array()) {
      const auto number = element.value<double>();
      if (!number) refuse(element.source(), key, "must be an array of numbers");
      field.push_back(*number);
    }
  }

  [[nodiscard]] TableReader table(std::string_view key) {
    const auto& node = find(key);
    if (!node.is_table()) refuse(node.source(), key, "must be a table");
    return {*node.as_table(), file_, concat(prefix_, key, ".")};
  }

  void expect_no_other_keys() const {
    for (const auto& [key, node] : table_) {
      bool known = false;
      for (const auto& name : asked_) known = known || name == key.str();
      if (!known) refuse(key.source(), key.str(), "is unknown; check its spelling");
    }
  }

 private:
  template <typename Value>
  Value value(std::string_view key, std::string_view kind) {
    const auto& node = find(key);
    const auto found = node.value<Value>();
    if (!found) refuse(node.source(), key, concat("must be ", kind));
    return *found;
  }

  const toml::node& find(std::string_view key) {
    asked_.emplace_back(key);
    const auto* node = table_.get(key);
    if (node == nullptr) refuse(table_.source(), key, "is missing");
    return *node;
  }

  [[noreturn]] void refuse(const toml::source_region& where, std::string_view key, std::string_view fault) const {
    throw Error(ErrorCode::recipe,
                concat("'", file_, "', line ", std::size_t{where.begin.line}, ": ", prefix_, key, " ", fault));
  }

  const toml::table& table_;
  std::string file_;
  std::string prefix_;
  std::vector<std::string> asked_;
};

toml::table parse(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path)) {
    throw Error(ErrorCode::io, concat("'", path.string(), "': no such file"));
  }
  try {
    return toml::parse_file(path.string());
  } catch (const toml::parse_error& error) {
    throw Error(ErrorCode::recipe, concat("'", path.string(), "', line ", std::size_t{error.source().begin.line}, ": ",
                                          error.description()));
  }
}

void read_walk(TableReader table, FrequencyWalk& walk) {
  table.read("step_hz", walk.step_hz);
  table.read("limit_hz", walk.limit_hz);
  table.read("age_samples", walk.age_samples);
  table.expect_no_other_keys();
}

void read_pulse(TableReader table, Pulse& pulse) {
  table.read("samples_per_symbol", pulse.samples_per_symbol);
  table.read("roll_off", pulse.roll_off);
  table.read("delay_symbols", pulse.delay_symbols);
  table.expect_no_other_keys();
}

void read_fading(TableReader table, Fading& fading) {
  table.read("sinusoids", fading.sinusoids);
  table.read("doppler_hz", fading.doppler_hz);
  table.read("rician_k", fading.rician_k);
  table.read("path_delays", fading.path_delays);
  table.read("path_magnitudes", fading.path_magnitudes);
  table.read("taps", fading.taps);
  table.expect_no_other_keys();
}

void read_iq_imbalance(TableReader table, IqImbalance& imbalance) {
  table.read("amplitude_db", imbalance.amplitude_db);
  table.read("phase_degrees", imbalance.phase_degrees);
  table.expect_no_other_keys();
}

void read_message(TableReader table, Message& message) {
  table.read("low_cut_hz", message.low_cut_hz);
  table.read("high_cut_hz", message.high_cut_hz);
  table.read("tilt_hz", message.tilt_hz);
  table.read("level_db", message.level_db);
  table.read("level_spread_db", message.level_spread_db);
  table.read("pause_probability", message.pause_probability);
  table.read("pause_level_db", message.pause_level_db);
  table.expect_no_other_keys();
}

void read_analog(TableReader table, Analog& analog) {
  table.read("modulation_index", analog.modulation_index);
  table.read("frequency_deviation_hz", analog.frequency_deviation_hz);
  table.expect_no_other_keys();
}

}  // namespace

Impairments without(Impairments impairments, Impairment spared) {
  switch (spared) {
    case Impairment::multipath:
      if (!impairments.fading.path_delays.empty()) {
        impairments.fading.path_delays = {impairments.fading.path_delays.front()};
        impairments.fading.path_magnitudes = {impairments.fading.path_magnitudes.front()};
      }
      break;
    case Impairment::fading:
      impairments.fading.sinusoids = 0;
      break;
    case Impairment::carrier_offset:
      impairments.carrier_offset = {};
      break;
    case Impairment::clock_offset:
      impairments.clock_offset = {};
      break;
    case Impairment::iq_imbalance:
      impairments.iq_imbalance = {};
      break;
  }
  return impairments;
}

void validate(const Impairments& impairments) {
  const double rate = impairments.sample_rate_hz;
  const auto& pulse = impairments.pulse;
  const auto& analog = impairments.analog;
  require(rate > 0 && std::isfinite(rate), "sample_rate_hz", rate, "more than 0");
  require(pulse.samples_per_symbol >= 2 && pulse.samples_per_symbol <= 64 && pulse.samples_per_symbol % 2 == 0,
          "pulse.samples_per_symbol", pulse.samples_per_symbol, "even, in [2, 64]");
  require(pulse.roll_off > 0 && pulse.roll_off <= 1, "pulse.roll_off", pulse.roll_off, "in (0, 1]");
  require(pulse.delay_symbols >= 2 && pulse.delay_symbols <= 64, "pulse.delay_symbols", pulse.delay_symbols,
          "in [2, 64]");
  validate_walk(impairments.clock_offset, "clock_offset", rate);
  validate_walk(impairments.carrier_offset, "carrier_offset", rate);
  validate_fading(impairments.fading, rate);
  const auto& imbalance = impairments.iq_imbalance;
  require(imbalance.amplitude_db >= 0 && imbalance.amplitude_db <= 20, "iq_imbalance.amplitude_db",
          imbalance.amplitude_db, "in [0, 20]");
  require(imbalance.phase_degrees >= 0 && imbalance.phase_degrees <= 45, "iq_imbalance.phase_degrees",
          imbalance.phase_degrees, "in [0, 45]");
  validate_message(impairments.message, rate / pulse.samples_per_symbol);
  require(analog.modulation_index > 0 && analog.modulation_index <= 1, "analog.modulation_index",
          analog.modulation_index, "in (0, 1]");
  require(analog.frequency_deviation_hz > 0 && analog.frequency_deviation_hz < rate / 2,
          "analog.frequency_deviation_hz", analog.frequency_deviation_hz, "in (0, sample_rate_hz / 2)");
}

Impairments load_impairments(const std::filesystem::path& path) {
  const auto document = parse(path);
  TableReader root(document, path.string(), "");
  Impairments impairments{.random_start = true};
  root.read("sample_rate_hz", impairments.sample_rate_hz);
  read_pulse(root.table("pulse"), impairments.pulse);
  read_walk(root.table("clock_offset"), impairments.clock_offset);
  read_walk(root.table("carrier_offset"), impairments.carrier_offset);
  read_fading(root.table("fading"), impairments.fading);
  read_iq_imbalance(root.table("iq_imbalance"), impairments.iq_imbalance);
  read_message(root.table("message"), impairments.message);
  read_analog(root.table("analog"), impairments.analog);
  root.expect_no_other_keys();
  validate(impairments);
  return impairments;
}

}  // namespace podaq::amc
