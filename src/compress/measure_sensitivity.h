#pragma once

#include "compress/trial_network.h"
#include "podaq/compress/recipe.h"
#include "podaq/compress/sensitivity.h"

namespace podaq::compress_detail {

/// measure_sensitivity on a trial network made from that recipe, which must be valid.
[[nodiscard]] SensitivityReport measure_sensitivity(TrialNetwork& trial, const Recipe& recipe,
                                                    const ValidationFunction& validation,
                                                    const SensitivityOptions& options);

}  // namespace podaq::compress_detail
