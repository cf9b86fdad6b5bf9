#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "podaq/format/file.h"

namespace podaq::format {

// As `decode`; errors name the file that the bytes were read from.
[[nodiscard]] Graph decode_from(const std::filesystem::path& path, std::span<const std::byte> bytes,
                                const ReadOptions& options);

}  // namespace podaq::format
