#include "podaq/compress/sensitivity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "compress/candidate_costs.h"
#include "compress/measure_sensitivity.h"
#include "compress/sensitivity_file.h"
#include "podaq/core/atomic_file.h"
#include "podaq/core/cancellation.h"
#include "podaq/core/error.h"
#include "podaq/core/sha256.h"
#include "podaq/format/file.h"
#include "podaq/graph/passes.h"

namespace podaq {
namespace {

using namespace compress_detail;

// The network and what the recipe says of pruning and quantizing; not what is searched, so that other candidates and
// budgets may use the same file.
std::string subject_of(const GraphModule& model, const Recipe& recipe) {
  const std::string text = to_toml({.prune = recipe.prune, .quantize = recipe.quantize});
  std::vector<std::byte> subject = encode(fuse(model.snapshot()), {.compression_level = 0});
  const auto bytes = std::as_bytes(std::span(text));
  subject.insert(subject.end(), bytes.begin(), bytes.end());
  return to_hexadecimal(sha256(subject));
}

void require_same(const std::filesystem::path& path, const MeasuredLosses& stored, const MeasuredLosses& now) {
  const auto refuse = [&](const std::string& problem) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: {}; delete the file or name another to measure anew", path.string(), problem));
  };
  if (stored.subject != now.subject) refuse("was measured on another network or with another [prune] or [quantize]");
  constexpr double rounding = 1e-6;  // sums of several threads may differ
  if (std::abs(stored.baseline - now.baseline) > rounding * std::max(1.0, std::abs(stored.baseline)))
    refuse(fmt::format("the validation function gave {} when it was measured and gives {} now, for the same network",
                       stored.baseline, now.baseline));
}

// What is known before the first candidate: the network's own loss, and what the file holds.
MeasuredLosses begin_measuring(TrialNetwork& trial, const Recipe& recipe, const ValidationFunction& validation,
                               const std::filesystem::path& file) {
  if (!validation) throw Error(ErrorCode::invalid_argument, "measure_sensitivity: the validation function is empty");
  if (!file.empty()) require_writable(file);
  std::optional<MeasuredLosses> stored = file.empty() ? std::nullopt : read_measured_losses(file);
  MeasuredLosses measured{.subject = file.empty() ? "" : subject_of(trial.model(), recipe),
                          .baseline = trial.baseline(validation)};
  if (!std::isfinite(measured.baseline))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("measure_sensitivity: the validation function gives {} for the network as it is; it must "
                            "give a finite number",
                            measured.baseline));
  if (!stored) return measured;
  require_same(file, *stored, measured);
  return *std::move(stored);
}

std::uint64_t count_missing(const TrialNetwork& trial, const MeasuredLosses& measured) {
  std::uint64_t missing = 0;
  for (const SearchedLayer& searched : trial.layers())
    missing += static_cast<std::uint64_t>(std::ranges::count_if(searched.candidates, [&](const LayerCandidate& each) {
      return !measured.losses.contains(measurement_name(searched.layer.name, each));
    }));
  return missing;
}

}  // namespace

SensitivityReport compress_detail::measure_sensitivity(TrialNetwork& trial, const Recipe& recipe,
                                                       const ValidationFunction& validation,
                                                       const SensitivityOptions& options) {
  MeasuredLosses measured = begin_measuring(trial, recipe, validation, options.file);
  SensitivityReport report{.baseline = measured.baseline};
  for (const SearchedLayer& searched : trial.layers()) {
    LayerSensitivity& layer = report.layers.emplace_back();
    layer.layer = searched.layer.name;
    layer.weights = trial.model().tensor(searched.layer.weight).numel();
    for (const LayerCandidate& candidate : searched.candidates) layer.candidates.push_back({.candidate = candidate});
  }
  add_costs(report, trial, recipe);

  Progress progress("sensitivity", count_missing(trial, measured), options.progress);
  for (std::size_t i = 0; i < report.layers.size(); ++i)
    for (CandidateEffect& effect : report.layers[i].candidates) {
      const SearchedLayer& searched = trial.layers()[i];
      const std::string name = measurement_name(searched.layer.name, effect.candidate);
      if (!measured.losses.contains(name)) {
        throw_if_cancelled();
        measured.losses[name] = trial.loss_with(searched, effect.candidate, validation);
        if (!options.file.empty()) write_measured_losses(options.file, measured);
        progress.advance();
      }
      effect.loss_rise = measured.losses[name] - measured.baseline;
    }
  return report;
}

SensitivityReport measure_sensitivity(const GraphModule& model, const Recipe& recipe,
                                      const ValidationFunction& validation, const SensitivityOptions& options) {
  validate(recipe);
  TrialNetwork trial(model, recipe);
  return compress_detail::measure_sensitivity(trial, recipe, validation, options);
}

}  // namespace podaq
