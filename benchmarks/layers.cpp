// Single layers of benchmarks/shapes/*.txt on codes: the dense kernel, the sparse one at rising sparsity without a
// pattern ("any") and with 4x1 blocks, and, for depthwise layers, the general dense kernel ("quad"). One sample; GMAC/s
// counts zeros too. PODAQ_FORCE_ISA chooses the dense kernel.
//   layers [--benchmark_filter=REGEX ...]   Google Benchmark; names are NET/LAYER/KERNEL[/PERCENT]
//   layers --summary [ROUNDS [PERCENT]]     all kernels of a layer in interleaved rounds: medians, ratios to dense, and
//                                           their geometric mean over the convolutions with input channels x taps >=
//                                           128 and >= 64 output positions

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "podaq/core/latency.h"
#include "podaq/graph/verify.h"
#include "runtime/aligned_vector.h"
#include "runtime/kernels/registry.h"
#include "runtime/window.h"

namespace {

using namespace podaq;
using runtime_detail::Kernel;
using runtime_detail::Layout;

struct Layer {
  std::string net, name;
  bool is_linear = false;
  Shape input;  ///< Per sample.
  std::int64_t outputs = 1, kernel = 1, stride = 1, pad = 0, groups = 1;

  [[nodiscard]] bool is_depthwise() const { return groups > 1 && groups == input[0] && groups == outputs; }
};

Shape parse_shape(const std::string& text) {
  Shape shape;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, 'x');) shape.push_back(std::stoll(word));
  return shape;
}

std::vector<Layer> read_layers(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<Layer> layers;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    Layer layer;
    layer.net = path.stem().string();
    std::string kind;
    std::string input;
    if (!(words >> layer.name) || layer.name[0] == '#') continue;
    if (!(words >> kind >> input >> layer.outputs >> layer.kernel >> layer.stride >> layer.pad >> layer.groups))
      throw std::runtime_error(path.string() + ": a line lacks columns: " + line);
    layer.is_linear = kind == "linear";
    layer.input = parse_shape(input);
    layers.push_back(layer);
  }
  return layers;
}

std::vector<Layer> all_layers() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(PODAQ_SHAPES_FOLDER)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<Layer> layers;
  for (const auto& file : files) {
    const std::vector<Layer> more = read_layers(file);
    layers.insert(layers.end(), more.begin(), more.end());
  }
  return layers;
}

// Weights of which each `rows` neighbouring output channels lose a share together.
Tensor random_weight(const Shape& shape, double sparsity, std::int64_t rows) {
  std::mt19937 engine{1};
  const std::int64_t columns = element_count(shape) / shape[0];
  std::vector<std::int8_t> codes(static_cast<std::size_t>(element_count(shape)), 0);
  for (std::int64_t first = 0; first < shape[0]; first += rows)
    for (std::int64_t column = 0; column < columns; ++column) {
      if (static_cast<double>(engine()) < sparsity * 4294967296.0) continue;
      for (std::int64_t row = first; row < std::min(first + rows, shape[0]); ++row)
        codes[static_cast<std::size_t>(row * columns + column)] = static_cast<std::int8_t>(engine() % 127 + 1);
    }
  Tensor weight = make_tensor<std::int8_t>(DType::s8, shape, codes);
  weight.scales.assign(static_cast<std::size_t>(shape[0]), 0.001F / std::sqrt(static_cast<float>(columns)));
  return weight;
}

// A graph of the one layer, from codes to codes.
Graph graph_of(const Layer& layer, double sparsity, std::int64_t rows) {
  const QParams codes{.scale = 0.02F, .zero_point = 128, .lowest = 0, .highest = 255};
  Graph graph;
  graph.inputs = {add_value(graph, "input", layer.input, codes)};
  Node node{.op = Linear{}, .name = layer.name, .inputs = graph.inputs, .tensors = {"weight", "bias"}};
  Shape weight = {layer.outputs, layer.input[0] / layer.groups};
  if (!layer.is_linear) {
    const std::size_t spatial = layer.input.size() - 1;
    weight.insert(weight.end(), spatial, layer.kernel);
    node.op = Conv{.stride = std::vector(spatial, layer.stride),
                   .pads_begin = std::vector(spatial, layer.pad),
                   .pads_end = std::vector(spatial, layer.pad),
                   .dilation = std::vector<std::int64_t>(spatial, 1),
                   .groups = layer.groups,
                   .clamp = Clamp{.minimum = 0.0F}};
  }
  graph.tensors["weight"] = random_weight(weight, sparsity, rows);
  const std::vector<std::int32_t> bias(static_cast<std::size_t>(layer.outputs), 7);
  graph.tensors["bias"] = make_tensor<std::int32_t>(DType::i32, {layer.outputs}, bias);
  node.output = add_value(graph, "output", infer_shape(graph, node), codes);
  graph.outputs = {node.output};
  graph.nodes.push_back(std::move(node));
  return graph;
}

enum class Choice { dense, quad, sparse };

// One layer's kernel with memory of its own.
class LayerRun {
 public:
  LayerRun(const Layer& layer, Choice choice, double sparsity = 0.0, std::int64_t rows = 1) {
    const Graph graph = graph_of(layer, sparsity, rows);
    const Layout layout = choice == Choice::sparse ? Layout::planar : Layout::channels_last;
    const std::vector<Layout> layouts(graph.values.size(), layout);
    const runtime_detail::NodeView view{.graph = graph, .node = graph.nodes[0], .layouts = layouts};
    kernel_ = choose(view, layer, choice);
    packed_ = kernel_->prepare(view);
    input_.resize(runtime_detail::sample_size(view.input().shape) + runtime_detail::over_read_bytes);
    output_.resize(runtime_detail::sample_size(view.output().shape) + runtime_detail::over_read_bytes);
    scratch_.resize((kernel_->scratch_bytes == nullptr ? 0 : kernel_->scratch_bytes(packed_)) +
                    runtime_detail::over_read_bytes);
    std::mt19937 engine{3};
    for (std::byte& code : input_) code = static_cast<std::byte>(engine());
  }

  [[nodiscard]] std::string kernel() const { return std::string(kernel_->name); }

  void run() {
    const std::byte* const input = input_.data();
    kernel_->run(packed_, {.inputs = {&input, 1}, .output = output_.data(), .scratch = scratch_.data(), .batch = 1});
    benchmark::DoNotOptimize(output_.data());
  }

 private:
  static const Kernel* choose(const runtime_detail::NodeView& view, const Layer& layer, Choice choice) {
    if (choice == Choice::dense) return &runtime_detail::choose_kernel(view, selected_isa());
    const Kernel* kernel = &runtime_detail::avx512::quad_conv;
    if (choice == Choice::sparse)
      kernel = layer.is_linear ? &runtime_detail::avx512::sparse_linear : &runtime_detail::avx512::sparse_conv;
    if (selected_isa() < kernel->isa || !kernel->accepts(view))
      throw std::runtime_error(layer.net + "/" + layer.name + ": " + std::string(kernel->name) + " cannot run here");
    return kernel;
  }

  const Kernel* kernel_ = nullptr;
  runtime_detail::Packed packed_;
  runtime_detail::AlignedVector<std::byte> input_, output_, scratch_;
};

double macs_of(const Layer& layer) {
  const Graph graph = graph_of(layer, 0.0, 1);
  const double outputs = static_cast<double>(runtime_detail::sample_size(graph.values[graph.outputs[0]].shape));
  return outputs * static_cast<double>(element_count(graph.tensors.at("weight").shape)) /
         static_cast<double>(layer.outputs);
}

std::string pattern_of(std::int64_t rows) {
  return rows == 1 ? "any" : "4x1";
}

void register_benchmark(const Layer& layer, const std::string& kernel, Choice choice, double sparsity,
                        std::int64_t rows) {
  const std::string name = layer.net + "/" + layer.name + "/" + kernel;
  const auto measure = [=](benchmark::State& state) {
    LayerRun run(layer, choice, sparsity, rows);
    for ([[maybe_unused]] auto _ : state) run.run();
    state.counters["GMAC/s"] = benchmark::Counter(macs_of(layer) * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
    state.SetLabel(run.kernel());
  };
  benchmark::RegisterBenchmark(name.c_str(), measure)->Unit(benchmark::kMicrosecond);
}

void register_benchmarks() {
  for (const Layer& layer : all_layers()) {
    register_benchmark(layer, "dense", Choice::dense, 0.0, 1);
    if (layer.is_depthwise()) {
      register_benchmark(layer, "quad", Choice::quad, 0.0, 1);
      continue;
    }
    for (const std::int64_t rows : {1, 4})
      for (const int percent : {0, 50, 70, 80, 90, 95})
        register_benchmark(layer, pattern_of(rows) + "/" + std::to_string(percent), Choice::sparse, percent / 100.0,
                           rows);
  }
}

// Whether the layer counts for the target: work enough to amortize a sparse kernel's fixed parts.
bool counts(const Layer& layer) {
  if (layer.is_linear || layer.groups > 1) return false;
  const Graph graph = graph_of(layer, 0.0, 1);
  const runtime_detail::ConvGeometry g = runtime_detail::geometry_of(graph, graph.nodes[0]);
  return g.input_channels * g.taps() >= 128 && g.output_positions() >= 64;
}

// Medians of a layer's kernels, dense first.
std::vector<double> measure(std::vector<std::unique_ptr<LayerRun>>& runs, int rounds) {
  std::vector<Contestant> contestants;
  contestants.reserve(runs.size());
  for (const auto& run : runs) contestants.push_back({.name = run->kernel(), .run = [&run] { run->run(); }});
  std::vector<double> medians;
  for (const Latency& latency : measure_latency(contestants, {.rounds = rounds, .seconds_per_round = 0.0005}))
    medians.push_back(latency.median_us);
  return medians;
}

struct Mean {
  double logarithms = 0.0;
  int count = 0;

  void add(double ratio) {
    logarithms += std::log(ratio);
    ++count;
  }
  [[nodiscard]] double value() const { return count == 0 ? 0.0 : std::exp(logarithms / count); }
};

void print_summary(int rounds, int percent) {
  Mean any;
  Mean blocks;
  Mean depthwise;
  std::printf("%s, %d %% sparse, one sample, medians of %d rounds in us; * counts for the means\n",
              std::string(name_of(selected_isa())).c_str(), percent, rounds);
  for (const Layer& layer : all_layers()) {
    std::vector<std::unique_ptr<LayerRun>> runs;
    runs.push_back(std::make_unique<LayerRun>(layer, Choice::dense));
    if (layer.is_depthwise()) {
      runs.push_back(std::make_unique<LayerRun>(layer, Choice::quad));
    } else {
      for (const std::int64_t rows : {1, 4})
        runs.push_back(std::make_unique<LayerRun>(layer, Choice::sparse, percent / 100.0, rows));
    }
    const std::vector<double> us = measure(runs, rounds);
    std::printf("%c %-10s %-24s dense %9.2f", counts(layer) ? '*' : ' ', layer.net.c_str(), layer.name.c_str(), us[0]);
    if (layer.is_depthwise()) {
      std::printf("  quad %9.2f  %5.2fx the time\n", us[1], us[1] / us[0]);
      depthwise.add(us[1] / us[0]);
      continue;
    }
    std::printf("  any %9.2f  %5.2fx  4x1 %9.2f  %5.2fx\n", us[1], us[0] / us[1], us[2], us[0] / us[2]);
    if (!counts(layer)) continue;
    any.add(us[0] / us[1]);
    blocks.add(us[0] / us[2]);
  }
  std::printf("geometric means over %d convolutions: any %.2fx, 4x1 %.2fx; depthwise over quad, %d layers: %.2fx\n",
              any.count, any.value(), blocks.value(), depthwise.count, depthwise.value());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--summary") == 0) {
    print_summary(argc > 2 ? std::max(1, std::atoi(argv[2])) : 31, argc > 3 ? std::atoi(argv[3]) : 90);
    return 0;
  }
  benchmark::Initialize(&argc, argv);
  register_benchmarks();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
