#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "podaq/core/progress.h"

namespace podaq {

/// The tuning file that new models read: the one named by the environment variable PODAQ_TUNING, none (an empty path)
/// where that is "off", otherwise the one for this CPU in the user's cache folder, $XDG_CACHE_HOME/podaq or
/// ~/.cache/podaq. It need not exist.
[[nodiscard]] std::filesystem::path selected_tuning_file();

/// How `tune` measures.
struct TuningOptions {
  double seconds = 30.0;     ///< About how long to measure, besides a few seconds of preparation.
  ProgressOptions progress;  ///< Where progress is shown.
};

/// How well the estimates meet what was measured, for the nodes of one kernel.
struct TuningFit {
  std::string kernel;
  std::size_t nodes = 0;
  double typical_error = 0.0;  ///< Median of |estimate / measured - 1|.
  double worst_error = 0.0;    ///< The largest.
};

/// A coefficient of the cost model, in ns.
struct TuningChange {
  std::string name;
  double shipped = 0.0;  ///< What the library uses without a tuning file.
  double here = 0.0;     ///< What was measured.
};

/// What `tune` found.
struct TuningReport {
  std::string cpu;  ///< Name and numbers of the CPU.
  std::vector<TuningFit> fits;
  std::vector<TuningChange> coefficients;
};

/// Measures what the kernels that compete with each other take on this CPU, and stores what choices are based on at
/// `file`, whole or not at all; models made afterwards read it. Only choices between kernels change, never results.
/// Throws Error(unsupported) where the selected instruction set leaves no choice, Error(cancelled) where the user asks
/// to stop within a CancellationScope, Error(io) where the file cannot be written.
[[nodiscard]] TuningReport tune(const std::filesystem::path& file, const TuningOptions& options = {});

}  // namespace podaq
