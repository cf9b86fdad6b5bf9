#pragma once

// What the README's deployment program takes from its reader: a frame, and room for the scores of four classes.
#include <array>

inline const std::array<float, 2 * 1024> frame{};
inline std::array<float, 4> logits{};
