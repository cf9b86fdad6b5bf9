#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cli/podaq/verbs.h"
#include "cli/run_program.h"
#include "podaq/core/error.h"
#include "podaq/core/latency.h"
#include "podaq/runtime/runner.h"

namespace podaq::cli {
namespace {

struct BenchOptions {
  std::string file;
  std::size_t batch = 1;
  double seconds = 1.0;
  bool kernels = false;
};

/// A fixed pseudo-random signal in [-1, 1]: speed does not depend on the data, but zeros would look suspicious.
std::vector<float> test_signal(std::size_t count) {
  std::vector<float> values(count);
  std::uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(state >> 8) / 8388608.0F - 1.0F;
  }
  return values;
}

void bench_file(const BenchOptions& options) {
  const Model model = Model::load(options.file);
  Runner runner(model, {.max_batch = options.batch});
  std::vector<std::vector<float>> buffers;
  std::vector<Runner::Input> inputs;
  std::vector<Runner::Output> outputs;
  for (const Port& port : model.inputs()) buffers.push_back(test_signal(port.size() * options.batch));
  for (const Port& port : model.outputs()) buffers.emplace_back(port.size() * options.batch);
  for (std::size_t i = 0; i < model.inputs().size(); ++i) inputs.push_back({model.inputs()[i].name, buffers[i]});
  for (std::size_t i = 0; i < model.outputs().size(); ++i)
    outputs.push_back({model.outputs()[i].name, buffers[model.inputs().size() + i]});

  constexpr int rounds = 51;
  const Contestant contestant{options.file, [&] { runner.run(inputs, outputs); }};
  const std::vector<Latency> latency =
      measure_latency({&contestant, 1}, {.rounds = rounds, .seconds_per_round = options.seconds / rounds});
  fmt::print("{}: batch {}, one thread, {}\n", options.file, options.batch, name_of(model.isa()));
  fmt::print("median {:.1f} us, 10 % {:.1f} us, 90 % {:.1f} us a batch; {:.0f} samples/s\n", latency[0].median_us,
             latency[0].p10_us, latency[0].p90_us, 1e6 * static_cast<double>(options.batch) / latency[0].median_us);
  if (!options.kernels) return;
  fmt::print("\n{:<24} {:<12} {}\n", "layer", "op", "kernel");
  for (const KernelChoice& choice : model.kernels())
    fmt::print("{:<24} {:<12} {}\n", choice.node, choice.op, choice.kernel);
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("bench", "Time a file on this machine, one thread");
  auto options = std::make_shared<BenchOptions>();
  verb->add_option("file", options->file, "A .podaq file")->required();
  verb->add_option("--batch", options->batch, "Samples a run")->check(CLI::Range(1, 65536))->capture_default_str();
  verb->add_option("--seconds", options->seconds, "How long to measure")
      ->check(number_between(0.01, 3600.0))
      ->capture_default_str();
  verb->add_flag("--kernels", options->kernels, "List the kernel chosen for each layer");
  verb->callback([options] { bench_file(*options); });
}

}  // namespace podaq::cli
