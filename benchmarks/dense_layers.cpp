// Where the time of dense int8 networks goes, node by node: VGG10-1D, ResNet-1D, CNN-A and VGG16 with random weights.
// Prints, for each network and instruction set, the median of the whole network, and the share of every kernel run.
//   dense_layers [--batch N] [--net NAME] [--isa NAME] [--nodes]

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "networks.h"
#include "podaq/core/cpu.h"
#include "podaq/core/latency.h"
#include "podaq/runtime.h"
#include "runtime/arena.h"
#include "runtime/isa.h"
#include "runtime/plan.h"

namespace {

using podaq::Isa;
using podaq::runtime_detail::ArenaLayout;
using podaq::runtime_detail::Plan;
using podaq::runtime_detail::PlanNode;

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

// A plan with memory of its own, so that single nodes can be run.
class NodeRunner {
 public:
  NodeRunner(const podaq::Graph& graph, Isa isa, std::size_t batch)
      : plan_(podaq::runtime_detail::build_plan(graph, isa, podaq::SparseKernels::never)), batch_(batch) {
    const ArenaLayout layout = plan_arena(plan_, batch);
    memory_.resize(layout.bytes + 64);
    auto* base = memory_.data() + (64 - reinterpret_cast<std::uintptr_t>(memory_.data()) % 64) % 64;
    scratch_ = base + layout.scratch_offset;
    places_.resize(plan_.values.size());
    outside_.resize(plan_.values.size());
    for (std::size_t value = 0; value < places_.size(); ++value) {
      if (layout.offsets[value] == ArenaLayout::external) {
        outside_[value].resize(plan_.values[value].sample_bytes * batch + 64);
        places_[value] = outside_[value].data();
      } else {
        places_[value] = base + layout.offsets[value];
      }
    }
    for (const auto value : plan_.input_values) {
      auto* numbers = reinterpret_cast<float*>(places_[value]);
      for (std::size_t i = 0; i < plan_.values[value].sample_bytes * batch / sizeof(float); ++i)
        numbers[i] = std::sin(static_cast<float>(i));
    }
  }

  [[nodiscard]] const Plan& plan() const { return plan_; }

  void run(const PlanNode& node) {
    std::vector<const std::byte*>& inputs = inputs_;
    inputs.clear();
    for (const auto value : node.inputs) inputs.push_back(places_[value]);
    node.kernel->run(node.packed,
                     {.inputs = inputs, .output = places_[node.output], .scratch = scratch_, .batch = batch_});
  }
  void run_all() {
    for (const PlanNode& node : plan_.nodes) run(node);
  }

 private:
  Plan plan_;
  std::size_t batch_;
  std::vector<std::byte> memory_;
  std::vector<std::vector<std::byte>> outside_;
  std::vector<std::byte*> places_;
  std::vector<const std::byte*> inputs_;
  std::byte* scratch_ = nullptr;
};

double median_us(const std::function<void()>& run) {
  const std::vector<podaq::Contestant> contestants = {{.name = "", .run = run}};
  return podaq::measure_latency(contestants, {.rounds = 31, .seconds_per_round = 0.002})[0].median_us;
}

// Each node's time within whole runs, so that caches are as they are in use.
void print_nodes(NodeRunner& runner) {
  using Clock = std::chrono::steady_clock;
  const auto& nodes = runner.plan().nodes;
  constexpr std::size_t rounds = 201;
  std::vector<std::vector<double>> times(nodes.size());
  for (std::size_t round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const auto start = Clock::now();
      runner.run(nodes[i]);
      times[i].push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    std::nth_element(times[i].begin(), times[i].begin() + rounds / 2, times[i].end());
    std::printf("    %3zu %-24.*s %9.2f us\n", i, static_cast<int>(nodes[i].kernel->name.size()),
                nodes[i].kernel->name.data(), times[i][rounds / 2]);
  }
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
      NodeRunner runner(graph, isa, options.batch);
      runner.run_all();
      std::printf("%-10s %-7s batch %3zu %10.2f us\n", name, std::string(name_of(isa)).c_str(), options.batch,
                  median_us([&] { runner.run_all(); }));
      if (options.nodes) print_nodes(runner);
    }
  }
  return 0;
}
