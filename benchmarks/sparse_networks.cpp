// Whole networks at rising sparsity: all dense against what the cost model chose and against all sparse, in
// interleaved rounds, so that a noisy machine slows all alike. Prints medians in microseconds, and the medians over
// rounds of how much faster what was chosen is than all dense, and than the better of all dense and all sparse; where
// it has the kernels of all dense, that shows how exact the measurement is.
//   sparse_networks [rounds]

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "networks.h"
#include "podaq/runtime.h"

namespace {

using namespace podaq;

constexpr std::array kinds = {SparseKernels::never, SparseKernels::automatic, SparseKernels::always};

struct Contestant {
  Runner runner;
  std::vector<float> input, output;
  std::vector<double> times;

  Contestant(const Graph& graph, SparseKernels kernels, std::size_t batch)
      : runner(Model(graph, {.read = {}, .sparse = kernels}), {.max_batch = batch}),
        input(batch * runner.model().inputs()[0].size()),
        output(batch * runner.model().outputs()[0].size()) {
    for (std::size_t i = 0; i < input.size(); ++i) input[i] = std::sin(static_cast<float>(i));
  }

  void run_round(int repeats) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < repeats; ++i) runner.run(input, output);
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
    times.push_back(time.count() / repeats);
  }
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Median over rounds of a's time over b's in the same round: a disturbed round disturbs both.
double median_ratio(const Contestant& a, const Contestant& b) {
  std::vector<double> ratios;
  for (std::size_t round = 0; round < a.times.size(); ++round) ratios.push_back(a.times[round] / b.times[round]);
  return median(std::move(ratios));
}

std::vector<std::string> kernels_of(const Contestant& contestant) {
  std::vector<std::string> names;
  for (const KernelChoice& choice : contestant.runner.model().kernels()) names.push_back(choice.kernel);
  return names;
}

void compare(const std::string& name, const Graph& graph, std::size_t batch, int rounds) {
  std::vector<Contestant> contestants;
  for (const SparseKernels kernels : kinds) contestants.emplace_back(graph, kernels, batch);
  const int repeats = batch == 1 ? 8 : 1;
  for (int round = 0; round < rounds; ++round)
    for (Contestant& contestant : contestants) contestant.run_round(repeats);
  const double over_dense = median_ratio(contestants[0], contestants[1]);
  const double over_sparse = median_ratio(contestants[2], contestants[1]);
  std::size_t sparse_layers = 0;
  for (const std::string& kernel : kernels_of(contestants[1]))
    sparse_layers += kernel.find("sparse") != std::string::npos;
  const bool same_plan = kernels_of(contestants[0]) == kernels_of(contestants[1]);
  std::printf(
      "%-20s batch %2zu  dense %9.1f  chosen %9.1f  sparse %9.1f  dense/chosen %5.3f  best/chosen %5.3f  %s%zu "
      "sparse\n",
      name.c_str(), batch, median(contestants[0].times), median(contestants[1].times), median(contestants[2].times),
      over_dense, std::min(over_dense, over_sparse), same_plan ? "as dense, " : "", sparse_layers);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 60;
  struct Net {
    const char* name;
    Graph graph;
  };
  const std::vector<Net> nets = {{"vgg10_1d", benchmarks::vgg10_1d()},
                                 {"resnet_1d", benchmarks::resnet_1d()},
                                 {"cnn_a_28", benchmarks::cnn_a(1, 28)}};
  for (const std::size_t batch : {std::size_t{1}, std::size_t{64}})
    for (const Net& net : nets)
      for (const std::int64_t channels : {1, 4})
        for (const int percent : {0, 50, 70, 80, 90, 95})
          compare(std::string(net.name) + (channels == 1 ? " any " : " 4x1 ") + std::to_string(percent) + " %",
                  benchmarks::prune(net.graph, percent / 100.0, channels), batch, batch == 1 ? rounds : rounds / 4 + 1);
  return 0;
}
