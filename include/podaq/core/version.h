#pragma once

#include <string_view>

namespace podaq {

/// The version of this library, "major.minor.patch"; CMake reads it from here.
inline constexpr std::string_view version = "0.1.0";

}  // namespace podaq
