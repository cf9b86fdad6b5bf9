#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "amc/amc_task.h"
#include "cli/run_program.h"
#include "cli/study_verb.h"
#include "podaq/training/allocator.h"

namespace {

struct Options {
  podaq::amc::TaskOptions task;
  podaq::ComparisonOptions comparison;
};

void add_preset(CLI::App& app, Options& options, const std::string& preset, const std::string& description) {
  CLI::App* verb = app.add_subcommand(preset, description);
  verb->add_option("--network", options.task.network, "vgg10 or separable")
      ->transform(CLI::CheckedTransformer(podaq::amc::network_kinds()))
      ->default_str("vgg10");
  verb->add_option("--scale", options.task.scale, "Share of the preset's frames, for trials")->capture_default_str();
  podaq::cli::add_comparison_options(*verb, options.comparison);
  verb->callback([&options, preset] {
    options.task.preset = preset;
    podaq::cli::run_comparison(podaq::amc::make_task(options.task), options.comparison);
  });
}

}  // namespace

int main(int argc, char** argv) {
  podaq::keep_freed_memory();
  CLI::App app(
      "Trains a modulation classifier dense, pruned, quantized, and pruned then quantized; writes each to a .podaq "
      "file "
      "and prints what it cost and won.",
      "amc");
  app.require_subcommand(1);
  Options options;
  add_preset(app, options, "quick", "11 classes, 20 SNRs, frames of 128 samples: minutes");
  add_preset(app, options, "full", "24 classes, 26 SNRs, frames of 1024 samples: hours");
  podaq::cli::add_study(
      app, [](const podaq::TaskWords& words) { return podaq::amc::make_task(podaq::amc::task_options(words)); });
  return podaq::cli::run_program(app, argc, argv);
}
