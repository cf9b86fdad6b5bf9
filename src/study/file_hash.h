#pragma once

#include <filesystem>
#include <string>

#include "podaq/core/file.h"
#include "podaq/core/sha256.h"
#include "podaq/format/file.h"

namespace podaq::study_detail {

/// The SHA-256 of a .podaq file, in hexadecimal. Throws as read_file does.
[[nodiscard]] inline std::string hash_of_file(const std::filesystem::path& path) {
  return to_hexadecimal(sha256(read_file(path, ReadOptions{}.max_decoded_bytes)));
}

}  // namespace podaq::study_detail
