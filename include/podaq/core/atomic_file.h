#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace podaq {

/// Makes `bytes` the whole content of the file at `path`, or leaves what was there: writes a temporary file in the
/// same folder, syncs it, and renames it over `path`. A link is followed; an existing file's permissions are kept, a
/// new one gets those of the process's umask. Throws Error(io) naming the path and the system's reason, after removing
/// the temporary.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);

}  // namespace podaq
