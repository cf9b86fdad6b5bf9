#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "podaq/core/cpu.h"
#include "runtime/cost_coefficients.h"

// A tuning file is text: a line "podaq-tuning <format> <library version> <CPU>", a line "<name> <ns>" for each
// coefficient, a line "end". It is a cache: anything unexpected, and it is as if there were none.
namespace podaq::runtime_detail {

/// The text of a file for the CPU.
[[nodiscard]] std::string tuning_text(const CostCoefficients& cost, const CpuIdentity& cpu);

/// The coefficients of such a text; nothing where it is of another version or CPU, incomplete, or holds a number that
/// is not finite, negative or beyond any time that a kernel's part could take.
[[nodiscard]] std::optional<CostCoefficients> parse_tuning(std::string_view text, const CpuIdentity& cpu);

/// The coefficients of the file; the defaults where it is missing, unreadable or not for this library and CPU. An empty
/// path is no file. Never fails.
[[nodiscard]] CostCoefficients read_tuning(const std::filesystem::path& path);

/// The place of a CPU's file below the user's cache folder; empty where the environment names none.
[[nodiscard]] std::filesystem::path cached_tuning_file(const CpuIdentity& cpu);

}  // namespace podaq::runtime_detail
