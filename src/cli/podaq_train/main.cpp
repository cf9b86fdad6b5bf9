#include "cli/podaq_train/verbs.h"
#include "cli/run_program.h"
#include "podaq/training/allocator.h"

int main(int argc, char** argv) {
  podaq::keep_freed_memory();
  CLI::App app("Trains and compresses networks with LibTorch.", "podaq-train");
  app.require_subcommand(1);
  podaq::cli::add_compress(app);
  return podaq::cli::run_program(app, argc, argv);
}
