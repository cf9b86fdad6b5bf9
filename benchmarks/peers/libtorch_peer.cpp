// The networks of make_networks as LibTorch modules, for compare.py: what a C++ program that trains has before it meets
// podaq. A C interface, because LibTorch's own Python package cannot be imported without CUDA's libraries.
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>
#include <torch/utils.h>
#include <torch/version.h>

#include <array>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

namespace nn = torch::nn;
using nlohmann::json;

struct Layer {
  std::string op;
  nn::AnyModule module;             // Empty for the ops that are plain functions.
  std::vector<std::size_t> inputs;  // Indices into the values; 0 is the network's input.
};

struct Network {
  std::vector<Layer> layers;  // Layer i computes value i + 1.
  torch::Tensor input;
  torch::Tensor output;
  int threads = 1;
  std::vector<torch::Tensor> values;
};

class Description {
 public:
  explicit Description(const std::string& path) {
    std::ifstream text(path + ".json");
    description_ = json::parse(text);
    const auto count = static_cast<std::int64_t>(std::filesystem::file_size(path + ".f32") / sizeof(float));
    numbers_ = torch::empty({count});
    std::ifstream file(path + ".f32", std::ios::binary);
    file.read(static_cast<char*>(numbers_.data_ptr()), count * static_cast<std::int64_t>(sizeof(float)));
    if (!file) throw std::runtime_error("cannot read " + path + ".f32");
  }

  [[nodiscard]] const json& nodes() const { return description_.at("nodes"); }
  [[nodiscard]] std::vector<std::int64_t> input_shape() const { return description_.at("input_shape"); }

  // Undefined for an absent tensor.
  [[nodiscard]] torch::Tensor tensor(const json& node, std::size_t index) const {
    const std::string name = node.at("tensors").at(index);
    if (name.empty()) return {};
    const json& place = description_.at("tensors").at(name);
    const std::vector<std::int64_t> shape = place.at("shape");
    return numbers_.narrow(0, place.at("first"), c10::multiply_integers(shape)).reshape(shape);
  }

 private:
  json description_;
  torch::Tensor numbers_;
};

std::vector<std::int64_t> attribute(const json& node, const char* name) {
  return node.at("attributes").at(name);
}

template <std::size_t dimensions>
torch::ExpandingArray<dimensions> expanding(const std::vector<std::int64_t>& sizes) {
  return torch::IntArrayRef(sizes);
}

template <typename Module>
nn::AnyModule with_weights(Module module, const torch::Tensor& weight, const torch::Tensor& bias) {
  module->weight.set_data(weight.clone());
  if (bias.defined()) module->bias.set_data(bias.clone());
  module->eval();
  return nn::AnyModule(module);
}

template <typename Conv, std::size_t dimensions>
nn::AnyModule conv_of(const json& node, const torch::Tensor& weight, const torch::Tensor& bias) {
  const std::vector<std::int64_t> taps(weight.sizes().begin() + 2, weight.sizes().end());
  const auto options = nn::ConvOptions<dimensions>(weight.size(1), weight.size(0), expanding<dimensions>(taps))
                           .stride(expanding<dimensions>(attribute(node, "stride")))
                           .padding(expanding<dimensions>(attribute(node, "pads")))
                           .bias(bias.defined());
  return with_weights(Conv(options), weight, bias);
}

template <typename BatchNorm>
nn::AnyModule batch_norm_of(const Description& description, const json& node) {
  const torch::Tensor weight = description.tensor(node, 0);
  BatchNorm module(nn::BatchNormOptions(weight.size(0)).eps(node.at("attributes").at("epsilon")));
  module->running_mean.set_data(description.tensor(node, 2).clone());
  module->running_var.set_data(description.tensor(node, 3).clone());
  return with_weights(module, weight, description.tensor(node, 1));
}

// `rank` is that of the layer's input, the batch included.
nn::AnyModule module_of(const Description& description, const json& node, std::int64_t rank) {
  const std::string op = node.at("op");
  if (op == "conv") {
    const torch::Tensor weight = description.tensor(node, 0);
    const torch::Tensor bias = description.tensor(node, 1);
    return rank == 3 ? conv_of<nn::Conv1d, 1>(node, weight, bias) : conv_of<nn::Conv2d, 2>(node, weight, bias);
  }
  if (op == "linear") {
    const torch::Tensor weight = description.tensor(node, 0);
    const torch::Tensor bias = description.tensor(node, 1);
    const nn::Linear module(nn::LinearOptions(weight.size(1), weight.size(0)).bias(bias.defined()));
    return with_weights(module, weight, bias);
  }
  if (op == "batch_norm")
    return rank == 4 ? batch_norm_of<nn::BatchNorm2d>(description, node)
                     : batch_norm_of<nn::BatchNorm1d>(description, node);
  if (op == "max_pool") {
    const std::vector<std::int64_t> kernel = attribute(node, "kernel");
    const std::vector<std::int64_t> stride = attribute(node, "stride");
    if (rank == 3)
      return nn::AnyModule(nn::MaxPool1d(nn::MaxPool1dOptions(expanding<1>(kernel)).stride(expanding<1>(stride))));
    return nn::AnyModule(nn::MaxPool2d(nn::MaxPool2dOptions(expanding<2>(kernel)).stride(expanding<2>(stride))));
  }
  if (op == "clamp") return nn::AnyModule(nn::ReLU());
  if (op == "reshape" || op == "add") return {};
  throw std::runtime_error("no LibTorch module for op '" + op + "'");
}

void run(Network& network) {
  const torch::InferenceMode guard;
  at::set_num_threads(network.threads);
  network.values[0] = network.input;
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    Layer& layer = network.layers[i];
    const torch::Tensor& x = network.values[layer.inputs[0]];
    if (layer.op == "add")
      network.values[i + 1] = x + network.values[layer.inputs[1]];
    else if (layer.op == "reshape")
      network.values[i + 1] = x.flatten(1);
    else
      network.values[i + 1] = layer.module.forward(x);
  }
  network.output = network.values.back();
}

Network build(const std::string& path, const float* input, std::int64_t batch, int threads) {
  const torch::NoGradGuard guard;
  const Description description(path);
  Network network;
  std::vector<std::int64_t> shape = description.input_shape();
  shape.insert(shape.begin(), batch);
  network.input = torch::from_blob(const_cast<float*>(input), shape).clone();
  network.threads = threads;
  std::map<std::string, std::size_t> value_index = {{"input", 0}};
  std::int64_t rank = network.input.dim();
  for (const json& node : description.nodes()) {
    Layer layer{.op = node.at("op"), .module = module_of(description, node, rank), .inputs = {}};
    if (layer.op == "reshape") rank = 2;
    for (const std::string name : node.at("inputs")) layer.inputs.push_back(value_index.at(name));
    network.layers.push_back(std::move(layer));
    value_index.emplace(node.at("output"), network.layers.size());
  }
  network.values.resize(network.layers.size() + 1);
  return network;
}

template <typename Call>
int guarded(const Call& call) {
  try {
    call();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "libtorch_peer: %s\n", error.what());
    return 1;
  }
}

}  // namespace

extern "C" {

const char* libtorch_peer_version() {
  return TORCH_VERSION;
}

// Builds <path>.json with its tensors for the `batch` samples at `input`, and stores a handle. Returns 0, or 1 after
// telling why on standard error.
int libtorch_peer_create(const char* path, const float* input, std::int64_t batch, int threads, void** network) {
  return guarded([&] { *network = new Network(build(path, input, batch, threads)); });
}

int libtorch_peer_run(void* network) {
  return guarded([&] { run(*static_cast<Network*>(network)); });
}

// Copies the last run's output; `count` is its number of elements.
int libtorch_peer_output(void* network, float* output, std::int64_t count) {
  return guarded(
      [&] { torch::from_blob(output, {count}).copy_(static_cast<Network*>(network)->output.reshape({count})); });
}

void libtorch_peer_free(void* network) {
  delete static_cast<Network*>(network);
}
}
