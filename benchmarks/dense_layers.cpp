// Where the time of dense int8 networks goes, node by node: VGG10-1D, ResNet-1D, CNN-A and VGG16 with random weights.
// Prints, for each network and instruction set, the median of the whole network, and the share of every kernel run.
//   dense_layers [--batch N] [--net NAME] [--isa NAME] [--nodes]

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "networks.h"
#include "podaq/core/cpu.h"
#include "podaq/core/latency.h"
#include "podaq/runtime.h"
#include "runtime/isa.h"
#include "runtime/node_timing.h"

namespace {

using podaq::Isa;
using podaq::runtime_detail::NodeRunner;
using podaq::runtime_detail::NodeTimer;

struct Options {
  std::size_t batch = 1;
  std::string net, isa;
  bool nodes = false;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--nodes") {
      options.nodes = true;
    } else if (i + 1 < argc && word == "--batch") {
      options.batch = std::strtoull(argv[++i], nullptr, 10);
    } else if (i + 1 < argc && word == "--net") {
      options.net = argv[++i];
    } else if (i + 1 < argc && word == "--isa") {
      options.isa = argv[++i];
    } else {
      std::fprintf(stderr, "usage: dense_layers [--batch N] [--net NAME] [--isa NAME] [--nodes]\n");
      std::exit(2);
    }
  }
  return options;
}

double median_us(const std::function<void()>& run) {
  const std::vector<podaq::Contestant> contestants = {{.name = "", .run = run}};
  return podaq::measure_latency(contestants, {.rounds = 31, .seconds_per_round = 0.002})[0].median_us;
}

void print_nodes(NodeRunner& runner) {
  constexpr std::size_t rounds = 201;
  NodeTimer timer(runner);
  for (std::size_t round = 0; round < rounds; ++round) timer.run_round();
  const std::vector<double> times = timer.medians();
  const auto& nodes = runner.plan().nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    std::printf("    %3zu %-24.*s %9.2f us\n", i, static_cast<int>(nodes[i].kernel->name.size()),
                nodes[i].kernel->name.data(), times[i] / 1000.0);
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  for (const auto& [name, build] : podaq::benchmarks::networks()) {
    if (!options.net.empty() && options.net != name) continue;
    const podaq::Graph graph = build();
    for (const Isa isa : {Isa::avx2, Isa::avxvnni, Isa::avx512, Isa::amx}) {
      if (!podaq::runtime_detail::missing_feature(isa, podaq::detect_cpu()).empty()) continue;
      if (!options.isa.empty() && options.isa != name_of(isa)) continue;
      NodeRunner runner(podaq::runtime_detail::build_plan(graph, isa, podaq::SparseKernels::never), options.batch);
      runner.run_all();
      std::printf("%-10s %-7s batch %3zu %10.2f us\n", name, std::string(name_of(isa)).c_str(), options.batch,
                  median_us([&] { runner.run_all(); }));
      if (options.nodes) print_nodes(runner);
    }
  }
  return 0;
}
