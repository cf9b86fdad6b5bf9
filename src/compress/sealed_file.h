#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

// Files that know when they are damaged. LibTorch's archives do not: it leaves their check sums unread.

namespace podaq::compress_detail {

/// Writes the bytes and behind them their CRC-32C, little endian. The file appears whole or not at all. Throws
/// Error(io).
void write_sealed(const std::filesystem::path& path, std::vector<std::byte> bytes);

/// The bytes that `write_sealed` wrote; none where the file holds others. Throws Error as `read_file` does.
[[nodiscard]] std::optional<std::vector<std::byte>> read_sealed(const std::filesystem::path& path,
                                                                std::uint64_t max_bytes);

}  // namespace podaq::compress_detail
