#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <span>

#include "podaq/core/atomic_file.h"
#include "podaq/study/comparison.h"
#include "study/report_text.h"

namespace podaq {
namespace {

using study_detail::grouped_digits;
using study_detail::percent;

}  // namespace

std::string format_table(const Comparison& comparison) {
  std::string out = fmt::format("{}: {} test samples, {} parameters ({} bytes as float), seed {}, {:.0f} s\n{}\n\n",
                                comparison.task, comparison.test_frames, comparison.parameters,
                                grouped_digits(4 * static_cast<std::uint64_t>(comparison.parameters)), comparison.seed,
                                comparison.seconds, comparison.host);
  const bool grouped = !comparison.rows.empty() && comparison.rows.front().measured.high_groups.has_value();
  const std::string high = grouped ? fmt::format("at >= {} dB", comparison.high_group) : "";
  auto to = std::back_inserter(out);
  fmt::format_to(to, "{:<15} {:>9} {:>17} ", "strategy", "accuracy", "95 % interval");
  if (grouped) fmt::format_to(to, "{:>11} ", high);
  fmt::format_to(to, "{:>9} {:>10} {:>9} {:>13} {:>14} {:>8}\n", "sparsity", "bytes", "smaller", "podaq us",
                 "libtorch us", "faster");
  for (const PointResult& row : comparison.rows) {
    const FileMeasurement& measured = row.measured;
    const Interval interval = confidence_interval(measured.all);
    fmt::format_to(to, "{:<15} {:>9} {:>17} ", row.strategy, percent(measured.all.accuracy()),
                   fmt::format("{:.2f} - {:.2f} %", 100 * interval.lowest, 100 * interval.highest));
    if (grouped) fmt::format_to(to, "{:>11} ", percent(measured.high_groups->accuracy()));
    fmt::format_to(to, "{:>9} {:>10} {:>8.1f}x {:>13.1f} {:>14.1f} {:>7.1f}x\n", percent(measured.sparsity),
                   grouped_digits(measured.file_bytes), measured.ratio, row.podaq.median_us, row.libtorch.median_us,
                   row.libtorch.median_us / row.podaq.median_us);
  }
  out +=
      "\nAccuracy: every file run by podaq on the whole test set. Latency: median, batch 1, one thread, interleaved;\n"
      "libtorch runs the float module. Smaller: 4 bytes a parameter over the bytes of the whole file.\n";
  return out;
}

std::string to_json(const Comparison& comparison) {
  nlohmann::ordered_json json;
  json["task"] = comparison.task;
  json["host"] = comparison.host;
  json["seed"] = comparison.seed;
  json["seconds"] = comparison.seconds;
  json["test_frames"] = comparison.test_frames;
  json["parameters"] = comparison.parameters;
  json["rows"] = nlohmann::ordered_json::array();
  for (const PointResult& row : comparison.rows) {
    const FileMeasurement& measured = row.measured;
    const Interval interval = confidence_interval(measured.all);
    nlohmann::ordered_json entry;
    entry["strategy"] = row.strategy;
    entry["accuracy"] = measured.all.accuracy();
    entry["accuracy_ci95"] = {interval.lowest, interval.highest};
    if (measured.high_groups) entry["accuracy_snr_ge_0"] = measured.high_groups->accuracy();
    entry["sparsity"] = measured.sparsity;
    entry["file_bytes"] = measured.file_bytes;
    entry["ratio"] = measured.ratio;
    entry["latency_us_podaq"] = row.podaq.median_us;
    entry["latency_us_podaq_p10_p90"] = {row.podaq.p10_us, row.podaq.p90_us};
    entry["latency_us_libtorch"] = row.libtorch.median_us;
    entry["latency_us_libtorch_p10_p90"] = {row.libtorch.p10_us, row.libtorch.p90_us};
    entry["agreement"] = measured.agreement;
    entry["validation_accuracy"] = row.validation_accuracy;
    json["rows"].push_back(std::move(entry));
  }
  return json.dump(2) + "\n";
}

void write_json(const Comparison& comparison, const std::filesystem::path& path) {
  const std::string text = to_json(comparison);
  write_file_atomically(path, std::as_bytes(std::span(text)));
}

}  // namespace podaq
