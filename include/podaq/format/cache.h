#pragma once

#include <filesystem>

#include "podaq/format/file.h"
#include "podaq/graph/graph.h"

namespace podaq {

/// Where the cache of the file at `path` lies unless a caller chooses: beside it, with ".cache" after its name.
[[nodiscard]] std::filesystem::path cache_beside(const std::filesystem::path& path);

/// The graph in the file at `path`, as `load` gives it, sooner from the second time on: decoding is slow, so the
/// decoded file is kept at `cache`.
///
/// The cache answers only for the file whose bytes, all of them, it was made of, for this version of the library and
/// for the same `options`; its content is read under all checks that a file is read under. It is the same on every CPU.
/// Where it is missing or does not answer, the file is decoded and the cache written, whole or not at all, with the
/// permissions of the file. What lies at `cache` and is no cache (a folder, the file itself) stays as it is. No fault
/// of the cache, nor that it cannot be read or written, shows but in the time taken; errors are those of `load`. Files
/// that are decoded as fast as a cache is read (large ones, which zstd codes) get none.
///
/// A cache holds the numbers of the network uncompressed. Who may write it decides what runs: keep it in a folder that
/// is trusted as much as the file's.
[[nodiscard]] Graph load_cached(const std::filesystem::path& path, const std::filesystem::path& cache,
                                ReadOptions options = {});

}  // namespace podaq
