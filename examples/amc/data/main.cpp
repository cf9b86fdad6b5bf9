#include "amc/data/verbs.h"
#include "cli/run_program.h"

int main(int argc, char** argv) {
  CLI::App app(
      "Makes, splits and shows data sets of labelled radio frames: HDF5 files of the layout of RadioML 2018.01A.",
      "amc-data");
  app.require_subcommand(1);
  podaq::amc::add_synthesize(app);
  podaq::amc::add_split(app);
  podaq::amc::add_inspect(app);
  return podaq::cli::run_program(app, argc, argv);
}
