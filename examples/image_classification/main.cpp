#include <CLI/CLI.hpp>

#include "cli/run_program.h"
#include "cli/study_verb.h"
#include "image_classification/image_task.h"
#include "podaq/training/allocator.h"

int main(int argc, char** argv) {
  podaq::keep_freed_memory();
  CLI::App app(
      "Trains CNN-A on Fashion-MNIST dense, pruned, quantized, and pruned then quantized; writes each to a .podaq file "
      "and prints what it cost and won.",
      "image_classification");
  app.require_subcommand(1);
  podaq::images::TaskOptions task_options;
  podaq::ComparisonOptions options;
  CLI::App* quick = app.add_subcommand("quick", "Fashion-MNIST, CNN-A: under an hour on two cores");
  quick->add_option("--data", task_options.data, "Folder of the IDX files")->capture_default_str();
  podaq::cli::add_study_options(*quick, options);
  quick->callback([&] { podaq::cli::run_study(podaq::images::make_task(task_options), options); });
  return podaq::cli::run_program(app, argc, argv);
}
