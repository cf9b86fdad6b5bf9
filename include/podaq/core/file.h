#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace podaq {

/// The bytes of the regular file at `path`. Throws Error(io) naming the path where it cannot be opened or read, is no
/// regular file (a folder, a pipe, a device), or holds more than `max_bytes`.
[[nodiscard]] std::vector<std::byte> read_file(const std::filesystem::path& path, std::uint64_t max_bytes);

}  // namespace podaq
