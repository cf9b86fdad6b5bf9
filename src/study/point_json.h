#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "podaq/study/study.h"

namespace podaq::study_detail {

/// A point's result as JSON; its file by name alone, so that a study's folder can move.
/// @param inputs  all that it depends on, for those who wonder why it was trained anew.
[[nodiscard]] nlohmann::ordered_json to_json(const PointResult& point, const std::string& inputs);

/// Writes it, whole or not at all.
void write_point(const PointResult& point, const std::string& inputs, const std::filesystem::path& path);

/// Reads what `write_point` wrote for these inputs; none where there is no such file, or where the point's file is
/// missing or is another one now. Throws Error(format) naming a file that is no result of these inputs.
[[nodiscard]] std::optional<PointResult> read_point(const std::filesystem::path& path, const std::string& inputs);

}  // namespace podaq::study_detail
