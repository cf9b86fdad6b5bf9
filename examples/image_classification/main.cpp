#include <CLI/CLI.hpp>

#include "cli/run_program.h"
#include "cli/study_verb.h"
#include "image_classification/goldbarg_task.h"
#include "podaq/training/allocator.h"

int main(int argc, char** argv) {
  podaq::keep_freed_memory();
  CLI::App app(
      "Trains CNN-A on Fashion-MNIST dense, pruned, quantized, and pruned then quantized, or as the thesis did; writes "
      "each to a .podaq file and prints what it cost and won.",
      "image_classification");
  app.require_subcommand(1);
  podaq::images::TaskOptions task_options;
  podaq::ComparisonOptions options;
  CLI::App* quick = app.add_subcommand("quick", "Fashion-MNIST, CNN-A: under an hour on two cores");
  quick->add_option("--data", task_options.data, "Folder of the IDX files")->capture_default_str();
  podaq::cli::add_comparison_options(*quick, options);
  quick->callback([&] { podaq::cli::run_comparison(podaq::images::make_task(task_options), options); });
  podaq::images::GoldbargOptions goldbarg_options;
  CLI::App* goldbarg = app.add_subcommand(
      "goldbarg", "The thesis's table: CNN-A under its strategy at four alphas and float, 8, 4 and 3 bits");
  goldbarg->add_option("--data", task_options.data, "Folder of the IDX files")->capture_default_str();
  goldbarg->add_option("--epochs", goldbarg_options.epochs, "Epochs of each of the 16 networks")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  goldbarg->add_option("--share", goldbarg_options.share, "Share of the 54 000 training images, above 0, up to 1")
      ->check(CLI::Range(1e-3, 1.0))
      ->capture_default_str();
  podaq::cli::add_comparison_options(*goldbarg, options);
  goldbarg->callback(
      [&] { podaq::cli::run_comparison(podaq::images::make_goldbarg_task(task_options, goldbarg_options), options); });
  podaq::cli::add_study(
      app, [](const podaq::TaskWords& words) { return podaq::images::make_task(podaq::images::task_options(words)); });
  return podaq::cli::run_program(app, argc, argv);
}
