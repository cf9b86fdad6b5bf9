// Whole networks at rising sparsity: all dense against what the cost model chose and against all sparse, in
// interleaved rounds, so that a noisy machine slows all alike. Prints medians in microseconds and their ratio.

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

  double median() {
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
    return times[times.size() / 2];
  }
};

void compare(const std::string& name, const Graph& graph, std::size_t batch, int rounds) {
  std::vector<Contestant> contestants;
  for (const SparseKernels kernels : kinds) contestants.emplace_back(graph, kernels, batch);
  const int repeats = batch == 1 ? 8 : 1;
  for (int round = 0; round < rounds; ++round)
    for (Contestant& contestant : contestants) contestant.run_round(repeats);
  const double dense = contestants[0].median();
  const double chosen = contestants[1].median();
  std::size_t sparse_layers = 0;
  for (const KernelChoice& choice : contestants[1].runner.model().kernels())
    sparse_layers += choice.kernel.find("sparse") != std::string::npos ? 1 : 0;
  std::printf("%-28s batch %2zu  dense %9.1f  chosen %9.1f  %5.2fx  (all sparse %9.1f; %zu sparse layers)\n",
              name.c_str(), batch, dense, chosen, dense / chosen, contestants[2].median(), sparse_layers);
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
