#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "cli/run_program.h"
#include "image_classification/image_task.h"
#include "podaq/study/comparison.h"

int main(int argc, char** argv) {
  CLI::App app(
      "Trains CNN-A on Fashion-MNIST dense, pruned, quantized, and pruned then quantized; writes each to a .podaq file "
      "and prints what it cost and won.",
      "image_classification");
  app.require_subcommand(1);
  podaq::images::TaskOptions task_options;
  podaq::ComparisonOptions options;
  CLI::App* quick = app.add_subcommand("quick", "Fashion-MNIST, CNN-A: under an hour on two cores");
  quick->add_option("--data", task_options.data, "Folder of the IDX files")->capture_default_str();
  quick->add_option("--seed", options.seed, "Seed of weights and order")->capture_default_str();
  quick->add_option("--threads", options.threads, "Threads; 0: as many as the machine has")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  quick->add_option("--out", options.folder, "Folder for the table (JSON) and the .podaq files")
      ->default_str("results");
  quick->callback([&] {
    const podaq::Task task = podaq::images::make_task(task_options);
    const podaq::Comparison comparison = podaq::compare_strategies(task, options);
    std::fputs(podaq::format_table(comparison).c_str(), stdout);
    podaq::write_json(comparison, options.folder / (task.name + ".json"));
  });
  return podaq::cli::run_program(app, argc, argv);
}
