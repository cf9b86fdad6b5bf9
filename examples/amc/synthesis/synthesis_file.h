#pragma once

#include <filesystem>

#include "amc/synthesis/synthesizer.h"

namespace podaq::amc {

/// Synthesizes a data set into an HDF5 file of RadioML 2018.01A's layout (`RadioMlWriter`), block by block: at most
/// 32 MiB of frames, or one frame, are in memory, whatever the size of the set. The file's bytes depend
/// on everything in `options` but the number of threads; it appears whole or not at all.
/// Throws `Error`: invalid_argument if an option is outside its range, there are no frames, or the SNRs are not
/// ascending; io if the file cannot be written; and whatever `progress` throws.
void synthesize_to_file(const SynthesisOptions& options, const std::filesystem::path& path,
                        const SynthesisProgress& progress = {});

}  // namespace podaq::amc
