#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "podaq/compress/sensitivity.h"

namespace podaq::compress_detail {

/// What a layer's candidate is called in a sensitivity file: "features.0 0.5 8".
[[nodiscard]] std::string measurement_name(const std::string& layer, const LayerCandidate& candidate);

/// What was measured so far, as JSON holds it.
struct MeasuredLosses {
  std::string subject = {};                   ///< Hash of all that the losses depend on but the validation function.
  double baseline = 0;                        ///< Of the network as it is; finite.
  std::map<std::string, double> losses = {};  ///< By measurement_name; NaN where the network gave no finite number.
};

/// Reads a file; none where there is none. Throws Error(format) naming the file and what is wrong with it.
[[nodiscard]] std::optional<MeasuredLosses> read_measured_losses(const std::filesystem::path& path);

/// Writes it, whole or not at all.
void write_measured_losses(const std::filesystem::path& path, const MeasuredLosses& measured);

}  // namespace podaq::compress_detail
