#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "podaq/compress/resolve_auto.h"
#include "podaq/compress/sensitivity.h"

namespace podaq {
namespace {

std::string name_of_bits(int bits) {
  return bits == 32 ? "float" : fmt::format("{}", bits);
}

std::size_t widest_name(const SensitivityReport& report) {
  std::size_t widest = std::string("layer").size();
  for (const LayerSensitivity& layer : report.layers) widest = std::max(widest, layer.layer.size());
  return widest;
}

std::string cost_columns(const CandidateEffect& effect) {
  return fmt::format("{:>10.0f}", effect.bytes) + (effect.us ? fmt::format(" {:>9.2f}", *effect.us) : "");
}

std::string cost_titles(const SensitivityReport& report) {
  const bool has_us = !report.layers.empty() && report.layers[0].candidates.at(0).us.has_value();
  return fmt::format("{:>10}", "bytes") + (has_us ? fmt::format(" {:>9}", "us") : "");
}

std::string line_of(const CandidateEffect& effect) {
  return fmt::format("{:>8.4g} % {:>5} {:>12.5g} {}\n", 100.0 * effect.candidate.sparsity,
                     name_of_bits(effect.candidate.weight_bits), effect.loss_rise, cost_columns(effect));
}

std::string title_of(const SensitivityReport& report) {
  return fmt::format("{:<{}} {:>10} {:>10} {:>5} {:>12} {}\n", "layer", widest_name(report), "weights", "sparsity",
                     "bits", "loss rise", cost_titles(report));
}

std::string start_of_line(const SensitivityReport& report, const LayerSensitivity& layer) {
  return fmt::format("{:<{}} {:>10} ", layer.layer, widest_name(report), layer.weights);
}

}  // namespace

std::string to_text(const SensitivityReport& report) {
  std::string text = fmt::format("validation: {:.6g} for the network as it is; by each candidate alone it rises by\n",
                                 report.baseline);
  text += title_of(report);
  for (const LayerSensitivity& layer : report.layers)
    for (const CandidateEffect& effect : layer.candidates) text += start_of_line(report, layer) + line_of(effect);
  return text;
}

std::string to_text(const AutoResolution& resolution) {
  const SensitivityReport& report = resolution.sensitivity;
  std::string text = title_of(report);
  for (std::size_t i = 0; i < report.layers.size(); ++i)
    text += start_of_line(report, report.layers[i]) + line_of(report.layers[i].candidates.at(resolution.chosen.at(i)));
  text += fmt::format("predicted loss rise before training: {:.5g}; whole network: {:.6g} {}\n\n", resolution.loss_rise,
                      resolution.cost,
                      !report.layers.empty() && report.layers[0].candidates.at(0).us ? "us a sample" : "bytes");
  return text + to_text(report);
}

}  // namespace podaq
