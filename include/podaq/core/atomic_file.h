#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>

namespace podaq {

/// Makes `bytes` the whole content of the file at `path`, or leaves what was there: writes a temporary file in the
/// same folder, syncs it, and renames it over `path`. A link is followed; an existing file's permissions are kept, a
/// new one gets those of the process's umask. Throws Error(io) naming the path and the system's reason, after removing
/// the temporary.
/// @param permissions  what the file is to have instead, whether it existed or not.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes,
                           std::optional<std::filesystem::perms> permissions = {});

/// Throws as `write_file_atomically` would if a file could not be written at `path` now; writes nothing. For long work
/// that ends in a file: better refused before than lost after.
void require_writable(const std::filesystem::path& path);

}  // namespace podaq
