// Speed of the runtime's kernels: convolutions and linears of VGG10-1D and CNN-A, one layer at a time, and VGG10-1D
// whole, dense, as floats and as codes. GMAC/s is the rate of multiply-accumulates.

#include <benchmark/benchmark.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "podaq/graph/verify.h"
#include "podaq/runtime.h"

namespace {

using podaq::Clamp;
using podaq::Conv;
using podaq::DType;
using podaq::Graph;
using podaq::Linear;
using podaq::Node;
using podaq::Op;
using podaq::QParams;
using podaq::Shape;
using podaq::Tensor;
using podaq::ValueId;

constexpr QParams input_codes{.scale = 0.02F, .zero_point = 128, .lowest = 0, .highest = 255};
constexpr QParams activation_codes{.scale = 0.02F, .zero_point = 3, .lowest = 0, .highest = 255};

// A network with random weights, on floats or on codes.
struct Network {
  explicit Network(bool codes_) : codes(codes_) {}

  bool codes;
  Graph graph;
  ValueId last = 0;
  std::int64_t macs = 0;
  std::mt19937 engine{1};

  void start(const Shape& shape) {
    last = podaq::add_value(graph, "input", shape);
    graph.inputs = {last};
    if (codes) append(podaq::Quantize{}, {}, input_codes);
  }

  void append(const Op& op, std::vector<std::string> tensors, const QParams& qparams, bool gives_floats = false) {
    const std::string name = "node" + std::to_string(graph.nodes.size());
    Node node{.op = op, .name = name, .inputs = {last}, .tensors = std::move(tensors)};
    const Shape shape = infer_shape(graph, node);
    last = podaq::add_value(graph, name + ".output", shape,
                            codes && !gives_floats ? std::optional(qparams) : std::nullopt);
    node.output = last;
    graph.nodes.push_back(std::move(node));
  }

  std::string weight(const Shape& shape) {
    const std::string name = "tensor" + std::to_string(graph.tensors.size());
    const auto count = static_cast<std::size_t>(podaq::element_count(shape));
    if (codes) {
      std::vector<std::int8_t> elements(count);
      for (std::int8_t& w : elements) w = static_cast<std::int8_t>(static_cast<int>(engine() % 255) - 127);
      graph.tensors[name] = podaq::make_tensor<std::int8_t>(DType::s8, shape, elements);
      const auto fan_in = static_cast<float>(count) / static_cast<float>(shape[0]);
      graph.tensors[name].scales.assign(static_cast<std::size_t>(shape[0]), 0.01F / std::sqrt(fan_in));
    } else {
      std::vector<float> elements(count);
      for (float& w : elements) w = static_cast<float>(engine() % 2001) / 1000.0F - 1.0F;
      graph.tensors[name] = podaq::make_tensor<float>(DType::f32, shape, elements);
    }
    return name;
  }

  std::string bias(std::int64_t outputs) {
    const std::string name = "tensor" + std::to_string(graph.tensors.size());
    const auto count = static_cast<std::size_t>(outputs);
    graph.tensors[name] =
        codes ? podaq::make_tensor<std::int32_t>(DType::i32, {outputs}, std::vector<std::int32_t>(count, 7))
              : podaq::make_tensor<float>(DType::f32, {outputs}, std::vector<float>(count, 0.01F));
    return name;
  }

  void conv(std::int64_t outputs, std::int64_t kernel, std::int64_t pad) {
    const Shape input = graph.values[last].shape;
    const std::size_t spatial = input.size() - 1;
    Shape shape = {outputs, input[0]};
    shape.insert(shape.end(), spatial, kernel);
    const std::vector<std::int64_t> ones(spatial, 1);
    const std::vector<std::int64_t> pads(spatial, pad);
    append(
        Conv{.stride = ones, .pads_begin = pads, .pads_end = pads, .dilation = ones, .clamp = Clamp{.minimum = 0.0F}},
        {weight(shape), bias(outputs)}, activation_codes);
    macs += podaq::element_count(shape) * podaq::element_count(graph.values[last].shape) / outputs;
  }

  void linear(std::int64_t outputs, bool is_last) {
    const std::int64_t inputs = graph.values[last].shape.back();
    append(Linear{.clamp = is_last ? std::nullopt : std::optional(Clamp{.minimum = 0.0F})},
           {weight({outputs, inputs}), bias(outputs)}, activation_codes, is_last);
    macs += inputs * outputs;
  }

  void max_pool() {
    const std::vector<std::int64_t> twos(graph.values[last].shape.size() - 1, 2);
    const std::vector<std::int64_t> zeros(twos.size(), 0);
    const std::vector<std::int64_t> ones(twos.size(), 1);
    append(podaq::MaxPool{.kernel = twos, .stride = twos, .pads_begin = zeros, .pads_end = zeros, .dilation = ones}, {},
           activation_codes);
  }

  void flatten() {
    append(podaq::Reshape{.shape = {podaq::element_count(graph.values[last].shape)}}, {}, activation_codes);
  }

  void finish() {
    if (codes && graph.values[last].qparams) append(podaq::Dequantize{}, {}, activation_codes, true);
    graph.outputs = {last};
  }
};

void measure(benchmark::State& state, const Network& network) {
  const auto batch = static_cast<std::size_t>(state.range(0));
  const podaq::Model model(network.graph);
  podaq::Runner runner(model, {.max_batch = batch});
  std::vector<float> input(batch * model.inputs()[0].size());
  std::vector<float> output(batch * model.outputs()[0].size());
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = std::sin(static_cast<float>(i));
  for ([[maybe_unused]] auto _ : state) {
    runner.run(input, output);
    benchmark::DoNotOptimize(output.data());
  }
  state.counters["GMAC/s"] = benchmark::Counter(static_cast<double>(network.macs) * static_cast<double>(batch) * 1e-9,
                                                benchmark::Counter::kIsIterationInvariantRate);
}

void vgg10(benchmark::State& state, bool codes, std::int64_t samples) {
  Network network(codes);
  network.start({2, samples});
  for (int block = 0; block < 7; ++block) {
    network.conv(64, 3, 1);
    network.max_pool();
  }
  network.flatten();
  network.linear(128, false);
  network.linear(128, false);
  network.linear(24, true);
  network.finish();
  measure(state, network);
}

void conv(benchmark::State& state, bool codes, const Shape& input, std::int64_t outputs) {
  Network network(codes);
  network.start(input);
  network.conv(outputs, 3, 1);
  network.finish();
  measure(state, network);
}

void linear(benchmark::State& state, bool codes, std::int64_t inputs, std::int64_t outputs) {
  Network network(codes);
  network.start({inputs});
  network.linear(outputs, true);
  network.finish();
  measure(state, network);
}

struct LayerShape {
  const char* name;
  Shape input;
  std::int64_t outputs;
};

void register_benchmarks() {
  const std::vector<LayerShape> convs = {{"vgg10_conv1", {2, 1024}, 64},    {"vgg10_conv2", {64, 512}, 64},
                                         {"vgg10_conv5", {64, 64}, 64},     {"vgg10_conv7", {64, 16}, 64},
                                         {"cnn_a_conv1", {3, 32, 32}, 32},  {"cnn_a_conv2", {32, 32, 32}, 32},
                                         {"cnn_a_conv3", {32, 16, 16}, 64}, {"cnn_a_conv4", {64, 16, 16}, 64},
                                         {"cnn_a_conv5", {64, 8, 8}, 128},  {"cnn_a_conv6", {128, 8, 8}, 128}};
  const std::vector<LayerShape> linears = {
      {"vgg10_fc1", {512}, 128}, {"vgg10_fc2", {128}, 128}, {"vgg10_fc3", {128}, 24}, {"cnn_a_fc1", {2048}, 1024}};
  for (const bool codes : {true, false}) {
    const std::string prefix = codes ? "codes/" : "floats/";
    for (const std::int64_t samples : {1024, 128})
      benchmark::RegisterBenchmark((prefix + "vgg10_1d_" + std::to_string(samples)).c_str(), vgg10, codes, samples)
          ->Arg(1)
          ->Arg(64)
          ->Unit(benchmark::kMicrosecond);
    for (const LayerShape& layer : convs)
      benchmark::RegisterBenchmark((prefix + layer.name).c_str(), conv, codes, layer.input, layer.outputs)
          ->Arg(1)
          ->Unit(benchmark::kMicrosecond);
    for (const LayerShape& layer : linears)
      benchmark::RegisterBenchmark((prefix + layer.name).c_str(), linear, codes, layer.input[0], layer.outputs)
          ->Arg(1)
          ->Arg(64)
          ->Unit(benchmark::kMicrosecond);
  }
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  register_benchmarks();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
