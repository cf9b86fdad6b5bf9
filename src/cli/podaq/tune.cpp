#include <fmt/format.h>

#include <memory>
#include <string>

#include "cli/podaq/verbs.h"
#include "cli/run_program.h"
#include "podaq/core/cancellation.h"
#include "podaq/core/error.h"
#include "podaq/runtime/tuning.h"

namespace podaq::cli {
namespace {

struct TuneOptions {
  std::string output;
  double seconds = 30.0;
};

void print_report(const TuningReport& report) {
  fmt::print("{}\n\n", report.cpu);
  fmt::print("{:<24} {:>6} {:>14} {:>8}\n", "kernel", "nodes", "typical error", "worst");
  for (const TuningFit& fit : report.fits)
    fmt::print("{:<24} {:>6} {:>12.1f} % {:>6.0f} %\n", fit.kernel, fit.nodes, 100.0 * fit.typical_error,
               100.0 * fit.worst_error);
  fmt::print("\n{:<24} {:>10} {:>10}\n", "ns each", "shipped", "here");
  for (const TuningChange& change : report.coefficients)
    fmt::print("{:<24} {:>10.4f} {:>10.4f}\n", change.name, change.shipped, change.here);
}

void tune_cpu(const TuneOptions& options) {
  const std::filesystem::path file =
      options.output.empty() ? selected_tuning_file() : std::filesystem::path(options.output);
  if (file.empty())
    throw Error(ErrorCode::invalid_argument,
                "there is no place for the result: PODAQ_TUNING is off, or neither XDG_CACHE_HOME nor HOME is set; "
                "give --output FILE");
  const CancellationScope cancellation;
  print_report(tune(file, {.seconds = options.seconds, .progress = {}}));
  fmt::print("\nstored in {}\n", file.string());
}

}  // namespace

void add_tune(CLI::App& app) {
  CLI::App* verb = app.add_subcommand(
      "tune", "Measure this CPU, so that models loaded from now on get the kernels that are fastest here");
  auto options = std::make_shared<TuneOptions>();
  verb->add_option("--seconds", options->seconds, "About how long to measure")
      ->check(number_between(0.1, 3600.0))
      ->capture_default_str();
  verb->add_option("--output", options->output,
                   "Where to store the result; otherwise where PODAQ_TUNING says, or the user's cache folder");
  verb->callback([options] { tune_cpu(*options); });
}

}  // namespace podaq::cli
