#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "amc/data/verbs.h"
#include "cli/run_program.h"
#include "podaq/core/atomic_file.h"
#include "podaq/data/radioml_file.h"
#include "podaq/data/split_file.h"

namespace podaq::amc {
namespace {

struct Options {
  std::string file;
  std::string output;
  SplitOptions split = {.fractions = {0.6, 0.2, 0.2}, .seed = 2016};
};

void run(const Options& options) {
  require_writable(options.output);
  const RadioMlReader reader(options.file);
  const Strata strata{.labels = reader.labels(), .groups = reader.snrs_db()};
  const SplitFile split{.options = options.split, .parts = stratified_split(strata, options.split)};
  write_split(options.output, split, strata);
  fmt::print("{}: {} rows of {} for training, {} for validation, {} for the test\n", options.output,
             split.parts[0].size(), reader.size(), split.parts[1].size(), split.parts[2].size());
}

}  // namespace

void add_split(CLI::App& app) {
  CLI::App* verb = app.add_subcommand(
      "split", "Deal out the rows of a file, so that each class at each SNR is shared in the same proportions");
  auto options = std::make_shared<Options>();
  verb->add_option("file", options->file, "An HDF5 file of the layout of RadioML 2018.01A")->required();
  verb->add_option("--out", options->output, "The JSON file to write")->required();
  verb->add_option("--fractions", options->split.fractions, "Shares of training, validation and test, at most 1 in all")
      ->expected(3)
      ->default_str("0.6 0.2 0.2");
  verb->add_option("--seed", options->split.seed, "The same seed gives the same split")
      ->check(cli::seed_validator())
      ->capture_default_str();
  verb->callback([options] { run(*options); });
}

}  // namespace podaq::amc
