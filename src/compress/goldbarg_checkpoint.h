#pragma once

#include <torch/serialize/archive.h>

#include <filesystem>

#include "compress/goldbarg_training.h"

namespace podaq::compress_detail {

void write_goldbarg_state(torch::serialize::OutputArchive& archive, const GoldbargState& state);

/// Throws Error(invalid_argument) naming the checkpoint where it holds no state of the strategy's.
/// @param own  null where the recipe has no [goldbarg].
[[nodiscard]] GoldbargState read_goldbarg_state(const std::filesystem::path& path, const GoldbargTraining* own,
                                                torch::serialize::InputArchive& archive);

}  // namespace podaq::compress_detail
