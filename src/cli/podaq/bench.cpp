#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/podaq/verbs.h"
#include "cli/run_program.h"
#include "podaq/core/error.h"
#include "podaq/core/latency.h"
#include "podaq/runtime/runner.h"
#include "runtime/explanation.h"

namespace podaq::cli {
namespace {

struct BenchOptions {
  std::string file;
  std::size_t batch = 1;
  double seconds = 1.0;
  bool explain = false;
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

void print_explanation(const runtime_detail::Explanation& explanation) {
  std::size_t widest = 5;
  for (const auto& layer : explanation.layers) widest = std::max(widest, layer.choice.node.size());
  fmt::print("\n{:<{}} {:<9} {:<22} {:>9} {:>6} {:>9} {:>8} {:>8} {:>6}  {}\n", "layer", widest, "op", "kernel", "us",
             "share", "estimate", "GMAC/s", "nonzero", "peak", "why");
  for (const auto& layer : explanation.layers) {
    fmt::print("{:<{}} {:<9} {:<22} ", layer.choice.node, widest, layer.choice.op, layer.choice.kernel);
    const auto number = [](double value, int width, int digits, std::string_view unit) {
      return value > 0.0 ? fmt::format("{:>{}.{}f}{}", value, width - static_cast<int>(unit.size()), digits, unit)
                         : fmt::format("{:>{}}", "-", width);
    };
    const double rate = layer.us > 0.0 ? layer.multiplications / layer.us * 1e-3 : 0.0;
    const bool has_peak = explanation.peak_gmacs > 0.0 && layer.choice.kernel.find("float") == std::string::npos;
    fmt::print("{} {} {} {} {} {}  {}\n", number(layer.us, 9, 2, ""),
               number(100.0 * layer.us / explanation.us, 6, 1, "%"), number(layer.estimated_us, 9, 2, ""),
               number(rate, 8, 1, ""), number(rate * layer.nonzero, 8, 1, ""),
               number(has_peak ? 100.0 * rate / explanation.peak_gmacs : 0.0, 6, 1, "%"), layer.choice.reason);
  }
  fmt::print("{:<{}} {:<9} {:<22} {:>9.2f}\n", "all", widest, "", "", explanation.us);
  if (explanation.peak_gmacs > 0.0)
    fmt::print("peak: {:.0f} int8 GMAC/s, measured; GMAC/s counts zero weights too, nonzero the others alone\n",
               explanation.peak_gmacs);
}

void bench_file(const BenchOptions& options) {
  const Graph graph = load(options.file);
  const Model model(graph);
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
  if (options.explain)
    print_explanation(runtime_detail::explain(graph, {}, {.batch = options.batch, .seconds = options.seconds}));
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
  verb->add_flag("--explain", options->explain,
                 "Show for each layer its kernel and why, its time, and how near it comes to what the CPU can do");
  verb->callback([options] { bench_file(*options); });
}

}  // namespace podaq::cli
