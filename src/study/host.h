#pragma once

#include <string>

namespace podaq {

/// The machine that a study ran on: CPU name, podaq's instruction set, LibTorch version, threads.
[[nodiscard]] std::string host_description(int threads);

}  // namespace podaq
