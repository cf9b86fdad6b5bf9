// Whole networks at rising sparsity: all dense against what the cost model chose and against all sparse, in
// interleaved rounds, so that a noisy machine slows all alike. Prints medians in microseconds, and the medians over
// rounds of how much faster what was chosen is than all dense, and than the better of all dense and all sparse; where
// it has the kernels of one of them, that shows how exact the measurement is.
//   sparse_networks [rounds]

#include <time.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "networks.h"
#include "podaq/runtime.h"

namespace {

using namespace podaq;

constexpr std::array kinds = {SparseKernels::never, SparseKernels::automatic, SparseKernels::always};

// Time that this thread was running: other programs on the machine take none of it.
double cpu_time_us() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
}

struct Contestant {
  Runner runner;
  std::vector<float> input, output;

  Contestant(const Graph& graph, SparseKernels kernels, std::size_t batch)
      : runner(Model(graph, {.read = {}, .sparse = kernels}), {.max_batch = batch}),
        input(batch * runner.model().inputs()[0].size()),
        output(batch * runner.model().outputs()[0].size()) {
    for (std::size_t i = 0; i < input.size(); ++i) input[i] = std::sin(static_cast<float>(i));
  }

  [[nodiscard]] double round_us(int repeats) {
    const double start = cpu_time_us();
    for (int i = 0; i < repeats; ++i) runner.run(input, output);
    return (cpu_time_us() - start) / repeats;
  }

  [[nodiscard]] std::vector<std::string> kernels() const {
    std::vector<std::string> names;
    for (const KernelChoice& choice : runner.model().kernels()) names.push_back(choice.kernel);
    return names;
  }
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Median over rounds of how often b fits into a: a disturbed round disturbs both.
double median_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (std::size_t round = 0; round < a.size(); ++round) ratios.push_back(a[round] / b[round]);
  return median(std::move(ratios));
}

// Where a contestant's memory happens to lie changes its speed by several percent: each is made anew several times, in
// another order, and who begins a round changes too.
void compare(const std::string& name, const Graph& graph, std::size_t batch, int rounds) {
  constexpr std::size_t makings = 6;
  const int repeats = batch == 1 ? 8 : 1;
  std::array<std::vector<double>, kinds.size()> times;
  std::array<std::vector<std::string>, kinds.size()> kernels;
  for (std::size_t making = 0; making < makings; ++making) {
    std::array<std::unique_ptr<Contestant>, kinds.size()> contestants;
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const std::size_t kind = (i + making) % kinds.size();
      contestants[kind] = std::make_unique<Contestant>(graph, kinds[kind], batch);
      kernels[kind] = contestants[kind]->kernels();
    }
    for (int round = 0; round < rounds / static_cast<int>(makings) + 1; ++round)
      for (std::size_t i = 0; i < kinds.size(); ++i) {
        const std::size_t kind = (i + making / 2 + static_cast<std::size_t>(round)) % kinds.size();
        times[kind].push_back(contestants[kind]->round_us(repeats));
      }
  }
  const double over_dense = median_ratio(times[0], times[1]);
  const double over_sparse = median_ratio(times[2], times[1]);
  const auto sparse_layers = std::count_if(kernels[1].begin(), kernels[1].end(), [](const std::string& kernel) {
    return kernel.find("sparse") != std::string::npos;
  });
  std::printf(
      "%-20s batch %2zu  dense %9.1f  chosen %9.1f  sparse %9.1f  dense/chosen %5.3f  best/chosen %5.3f  %s%td "
      "sparse\n",
      name.c_str(), batch, median(times[0]), median(times[1]), median(times[2]), over_dense,
      std::min(over_dense, over_sparse),
      kernels[0] == kernels[1]   ? "as dense, "
      : kernels[2] == kernels[1] ? "as sparse, "
                                 : "",
      sparse_layers);
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
