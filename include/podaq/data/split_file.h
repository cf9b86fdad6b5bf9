#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "podaq/data/split.h"

namespace podaq {

/// A split that is kept, so that every run trains and tests on the same rows.
struct SplitFile {
  SplitOptions options = {};                          ///< How it was dealt out.
  std::vector<std::vector<std::int64_t>> parts = {};  ///< Row numbers of each part, ascending, no row in two parts.
};

/// Writes a split of the data set whose samples belong to `strata` as JSON, whole or not at all:
/// `{"format": "podaq-split", "version": 1, "seed": 2016, "fractions": [0.6, 0.2, 0.2], "rows": 220000,
/// "strata_sha256": "…", "parts": ["0-3 7 9-11", …]}`, where the digest is that of all labels, then all groups, as
/// little-endian 32-bit integers, and `4-7` stands for rows 4, 5, 6 and 7. Others may write such a file too: the rows
/// count, not what seed and fractions would give.
/// Throws `Error`: invalid_argument if the parts are not ascending rows of the data set, or one row is in two parts; io
/// if the file cannot be written.
void write_split(const std::filesystem::path& path, const SplitFile& split, const Strata& strata);

/// Reads what `write_split` writes. Throws `Error`: io if the file cannot be read; format, naming file and field, if it
/// is malformed, its rows are not ascending rows of the data set or in two parts, or it belongs to a data set of other
/// labels, groups or size.
[[nodiscard]] SplitFile read_split(const std::filesystem::path& path, const Strata& strata);

}  // namespace podaq
