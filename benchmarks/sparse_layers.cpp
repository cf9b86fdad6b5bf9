// Convolutions at rising sparsity by the dense kernel (SparseKernels::never) and the sparse one (always): the figures
// behind the cost model's coefficients. Unstructured and 4x1 patterns; one sample; GMAC/s counts zeros too.

#include <benchmark/benchmark.h>

#include <cmath>
#include <string>
#include <vector>

#include "networks.h"
#include "podaq/runtime.h"

namespace {

using namespace podaq;

struct LayerShape {
  const char* name;
  Shape input;
  std::int64_t outputs, kernel;
};

void measure(benchmark::State& state, const Graph& graph, double macs, SparseKernels kernels) {
  const Model model(graph, {.read = {}, .sparse = kernels});
  Runner runner(model, {.max_batch = 1});
  std::vector<float> input(model.inputs()[0].size());
  std::vector<float> output(model.outputs()[0].size());
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = std::sin(static_cast<float>(i));
  for ([[maybe_unused]] auto _ : state) {
    runner.run(input, output);
    benchmark::DoNotOptimize(output.data());
  }
  state.counters["GMAC/s"] = benchmark::Counter(macs * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

// The layer follows another of its kind, and a pooling and a linear end the network, so that neither quantizing nor
// dequantizing a whole value is timed more than once.
Graph network_of(const LayerShape& layer) {
  benchmarks::NetworkBuilder net(layer.input);
  for (int i = 0; i < 8; ++i) net.conv(i % 2 == 0 ? layer.outputs : layer.input[0], layer.kernel);
  net.max_pool();
  net.flatten();
  net.linear(1, true);
  return net.finish();
}

void register_benchmarks() {
  const std::vector<LayerShape> layers = {
      {"64_64_3_L64", {64, 64}, 64, 3},          {"64_64_3_L128", {64, 128}, 64, 3},
      {"64_64_3_L512", {64, 512}, 64, 3},        {"64_64_3_L1024", {64, 1024}, 64, 3},
      {"64_64_3x3_32", {64, 32, 32}, 64, 3},     {"128_256_3x3_8", {128, 8, 8}, 256, 3},
      {"128_128_1x1_16", {128, 16, 16}, 128, 1}, {"256_256_1x1_8", {256, 8, 8}, 256, 1}};
  for (const LayerShape& layer : layers)
    for (const std::int64_t channels : {1, 4})
      for (const int percent : {0, 50, 70, 80, 90, 95})
        for (const SparseKernels kernels : {SparseKernels::never, SparseKernels::always}) {
          const std::string name = std::string(layer.name) + (channels == 1 ? "/any/" : "/4x1/") +
                                   std::to_string(percent) + (kernels == SparseKernels::never ? "/dense" : "/sparse");
          double positions = 1;
          for (std::size_t i = 1; i < layer.input.size(); ++i) positions *= static_cast<double>(layer.input[i]);
          const double macs = 8.0 * positions * static_cast<double>(layer.input[0] * layer.outputs) *
                              std::pow(static_cast<double>(layer.kernel), static_cast<double>(layer.input.size() - 1));
          benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
            measure(state, benchmarks::prune(network_of(layer), percent / 100.0, channels), macs, kernels);
          })->Unit(benchmark::kMicrosecond);
        }
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  register_benchmarks();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
