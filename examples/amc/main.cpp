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

void add_data_options(CLI::App& verb, podaq::amc::FrameFileOptions& data) {
  CLI::Option* file =
      verb.add_option("--data", data.file,
                      "Train on the frames of this HDF5 file (X, Y, Z as in RadioML 2018.01A) instead of "
                      "synthesized ones; a share of it is taken into memory");
  verb.add_option("--split", data.split,
                  "Which rows train, validate and test, from amc-data split; default: 60/20/20 % of each class at each "
                  "SNR, by --seed")
      ->needs(file);
  verb.add_option("--frames-per-cell", data.frames_per_cell,
                  "Frames of each class at each SNR to take from the file, for the three together; 0: all")
      ->needs(file)
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  verb.add_option("--memory", data.memory_gib, "GiB that the file's frames may take; more are refused, never swapped")
      ->needs(file)
      ->check(podaq::cli::number_between(0.001, 65536))
      ->capture_default_str();
}

void add_preset(CLI::App& app, Options& options, const std::string& preset, const std::string& description) {
  CLI::App* verb = app.add_subcommand(preset, description);
  verb->add_option("--network", options.task.network, podaq::amc::network_names())
      ->transform(CLI::CheckedTransformer(podaq::amc::network_kinds()))
      ->default_str("vgg10");
  verb->add_option("--scale", options.task.scale, "Share of the preset's frames, for trials")->capture_default_str();
  add_data_options(*verb, options.task.data);
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
