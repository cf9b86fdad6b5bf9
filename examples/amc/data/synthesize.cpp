#include <fmt/format.h>

#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "amc/data/verbs.h"
#include "amc/synthesis/synthesis_file.h"
#include "cli/run_program.h"
#include "podaq/core/cancellation.h"
#include "podaq/core/progress.h"

namespace podaq::amc {
namespace {

const std::map<std::string, ClassSet> presets = {{"quick", ClassSet::radioml2016}, {"full", ClassSet::radioml2018}};

const std::map<std::string, Impairment> switches = {{"multipath", Impairment::multipath},
                                                    {"fading", Impairment::fading},
                                                    {"carrier", Impairment::carrier_offset},
                                                    {"clock", Impairment::clock_offset},
                                                    {"iq", Impairment::iq_imbalance}};

struct Options {
  ClassSet set = ClassSet::radioml2016;
  int frames_per_cell = 0;
  std::string output;
  std::uint64_t seed = 1;
  int threads = 0;
  std::string impairments = PODAQ_EXAMPLES_FOLDER "/amc/impairments/radioml2016.toml";
  std::vector<Impairment> spared;
};

void run(const Options& options) {
  Impairments impairments = load_impairments(options.impairments);
  for (const Impairment spared : options.spared) impairments = without(impairments, spared);
  SynthesisOptions synthesis = standard_options(options.set, options.frames_per_cell, options.seed, impairments);
  synthesis.threads = options.threads;

  const CancellationScope cancellation;
  const auto total =
      classes(options.set).size() * synthesis.snrs_db.size() * static_cast<std::size_t>(synthesis.frames_per_cell);
  Progress progress("synthesizing", total);
  std::int64_t shown = 0;
  const auto begin = std::chrono::steady_clock::now();
  synthesize_to_file(synthesis, options.output, [&](std::int64_t done, std::int64_t) {
    throw_if_cancelled();
    progress.advance(static_cast<std::uint64_t>(done - shown));
    shown = done;
  });
  progress.finish();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  fmt::print("{}: {} frames of {} samples, {:.0f} frames/s\n", options.output, total, synthesis.frame_length,
             static_cast<double>(total) / seconds.count());
}

}  // namespace

void add_synthesize(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("synthesize", "Synthesize labelled frames into an HDF5 file");
  auto options = std::make_shared<Options>();
  verb->add_option(
          "--preset", options->set,
          "quick: 11 classes, 20 SNRs, frames of 128 samples; full: 24 classes, 26 SNRs, frames of 1024 samples")
      ->transform(CLI::CheckedTransformer(presets))
      ->default_str("quick");
  verb->add_option("--frames-per-cell", options->frames_per_cell, "Frames of each class at each SNR")
      ->required()
      ->check(CLI::Range(1, std::numeric_limits<int>::max()));
  verb->add_option("--out", options->output, "The file to write; 1 KiB (quick) or 8 KiB (full) a frame and more")
      ->required();
  verb->add_option("--seed", options->seed, "Seed of all random numbers: the same seed gives the same bytes")
      ->check(cli::seed_validator())
      ->capture_default_str();
  verb->add_option("--threads", options->threads,
                   "Threads; 0: as many as the machine has. The bytes do not depend on it")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  verb->add_option("--impairments", options->impairments, "TOML file that describes transmitter, channel and receiver")
      ->capture_default_str();
  verb->add_option("--without", options->spared,
                   "Impairments of that file to leave out, separated by commas: multipath (all paths but the first), "
                   "fading (gains that change), carrier and clock (offsets), iq (imbalance)")
      ->delimiter(',')
      ->transform(CLI::CheckedTransformer(switches));
  verb->callback([options] { run(*options); });
}

}  // namespace podaq::amc
