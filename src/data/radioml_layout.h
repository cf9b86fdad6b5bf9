#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// The bounds of files of the RadioML layout, which reader and writer share.
namespace podaq::radioml_layout {

inline constexpr std::uint64_t longest_frame = std::uint64_t{1} << 20;
inline constexpr std::uint64_t most_classes = 1024;
inline constexpr std::uint64_t most_snrs = 401;
inline constexpr std::int32_t largest_snr_db = 200;

/// What is wrong with these class names, if anything is.
[[nodiscard]] std::optional<std::string> fault_of_names(const std::vector<std::string>& names);

/// What is wrong with this grid of SNRs, if anything is.
[[nodiscard]] std::optional<std::string> fault_of_grid(const std::vector<std::int32_t>& grid);

}  // namespace podaq::radioml_layout
