// Writes the networks that compare.py times: each as a description that other engines can be built from, and as .podaq
// files, float and int8, dense and pruned.
//
//   <net>.json               nodes of the float network as it is trained, and where their tensors lie in
//   <net>.f32                all its float tensors, one after another
//   <net>_float.podaq        the same network, batch norms folded
//   <net>_<pattern>.podaq    int8: dense, unstructured, block_4x1
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compress/integer_graph.h"
#include "networks.h"
#include "podaq/core/atomic_file.h"
#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "podaq/format/file.h"
#include "podaq/graph/passes.h"
#include "podaq/graph/verify.h"
#include "podaq/numerics/choose_qparams.h"
#include "podaq/runtime/runner.h"

namespace podaq::peers {
namespace {

constexpr double sparsity = 0.9;
constexpr std::uint64_t seed = 1;

// What of an op compare.py needs; it knows that pads are symmetric and dilations and groups 1.
nlohmann::json attributes_of(const Op& op) {
  if (const auto* conv = std::get_if<Conv>(&op)) return {{"stride", conv->stride}, {"pads", conv->pads_begin}};
  if (const auto* pool = std::get_if<MaxPool>(&op)) return {{"kernel", pool->kernel}, {"stride", pool->stride}};
  if (const auto* norm = std::get_if<BatchNorm>(&op)) return {{"epsilon", norm->epsilon}};
  if (const auto* reshape = std::get_if<Reshape>(&op)) return {{"shape", reshape->shape}};
  return nlohmann::json::object();
}

void write_description(const Graph& graph, const std::string& path) {
  nlohmann::json tensors = nlohmann::json::object();
  std::vector<std::byte> numbers;
  for (const auto& [name, tensor] : graph.tensors) {
    tensors[name] = {{"first", numbers.size() / sizeof(float)}, {"shape", tensor.shape}};
    numbers.insert(numbers.end(), tensor.bytes.begin(), tensor.bytes.end());
  }
  nlohmann::json nodes = nlohmann::json::array();
  for (const Node& node : graph.nodes) {
    std::vector<std::string> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(graph.values[input].name);
    nodes.push_back({{"op", name_of(node.op)},
                     {"name", node.name},
                     {"inputs", inputs},
                     {"output", graph.values[node.output].name},
                     {"tensors", node.tensors},
                     {"attributes", attributes_of(node.op)}});
  }
  const nlohmann::json description = {{"input_shape", graph.values[graph.inputs[0]].shape},
                                      {"output_shape", graph.values[graph.outputs[0]].shape},
                                      {"nodes", nodes},
                                      {"tensors", tensors}};
  const std::string text = description.dump(1);
  write_file_atomically(path + ".f32", numbers);
  write_file_atomically(path + ".json", std::as_bytes(std::span(text)));
}

// The range of each value over a few samples of normal noise.
std::map<std::string, QParams> calibrate(Graph graph, std::mt19937_64& random) {
  constexpr std::size_t samples = 8;
  const std::vector<ValueId> inputs = graph.inputs;
  graph.outputs.clear();
  for (const Node& node : graph.nodes) graph.outputs.push_back(node.output);
  const Model model(graph);
  Runner runner(model, {.max_batch = samples});

  std::normal_distribution<float> draw;
  std::vector<float> noise(samples * model.inputs()[0].size());
  for (float& number : noise) number = draw(random);
  std::vector<std::vector<float>> results;
  std::vector<Runner::Output> outputs;
  results.reserve(model.outputs().size());
  for (const Port& port : model.outputs()) outputs.push_back({port.name, results.emplace_back(samples * port.size())});
  runner.run(std::vector<Runner::Input>{{model.inputs()[0].name, noise}}, outputs);

  std::map<std::string, QParams> ranges;
  const auto observe = [&](const std::string& name, std::span<const float> numbers) {
    const auto [least, most] = std::minmax_element(numbers.begin(), numbers.end());
    ranges[name] = numerics::choose_activation_qparams(*least, *most);
  };
  observe(model.inputs()[0].name, noise);
  for (std::size_t i = 0; i < results.size(); ++i) observe(model.outputs()[i].name, results[i]);
  return ranges;
}

// A pooled or reshaped value has its source's parameters; the network's output is float.
Graph quantize(const Graph& fused, std::map<std::string, QParams> ranges) {
  constexpr int weight_bits = 8;
  compress_detail::IntegerPlan plan;
  for (const Node& node : fused.nodes) {
    const std::string& output = fused.values[node.output].name;
    plan.steps_on_codes[output] = {.weight = {.bits = weight_bits}, .learned = {}};
    if (std::holds_alternative<MaxPool>(node.op) || std::holds_alternative<Reshape>(node.op))
      ranges[output] = ranges.at(fused.values[node.inputs[0]].name);
  }
  ranges.erase(fused.values[fused.outputs[0]].name);
  plan.values = std::move(ranges);
  return compress_detail::to_integer_graph(fused, plan);
}

void write_network(const std::string& name, const std::filesystem::path& folder) {
  const WriteOptions quick{.compression_level = 1};
  const std::string path = (folder / name).string();
  for (const auto& [pattern, suffix] :
       {std::pair(Pattern::dense, "dense"), std::pair(Pattern::unstructured, "unstructured"),
        std::pair(Pattern::block_4x1, "block_4x1")}) {
    std::mt19937_64 random(seed);
    Graph graph = build_network(name, random);
    prune_weights(graph, pattern, sparsity, random);
    const Graph fused = fuse(graph);
    if (pattern == Pattern::dense) {
      write_description(graph, path);
      save(fused, path + "_float.podaq", quick);
    }
    save(quantize(fused, calibrate(fused, random)), concat(path, "_", suffix, ".podaq"), quick);
  }
}

int run(const std::vector<std::string>& arguments) {
  const std::vector<std::string> known = network_names();
  if (arguments.empty() || arguments[0].starts_with("-")) {
    std::fputs("usage: make_networks FOLDER [NET...]\nWrites the networks of the peer comparison; all unless named:",
               stderr);
    for (const std::string& name : known) std::fprintf(stderr, " %s", name.c_str());
    std::fputs("\n", stderr);
    return 2;
  }
  std::filesystem::create_directories(arguments[0]);
  for (const std::string& name :
       arguments.size() > 1 ? std::vector<std::string>(arguments.begin() + 1, arguments.end()) : known) {
    write_network(name, arguments[0]);
    std::printf("%s\n", name.c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace podaq::peers

int main(int argc, char** argv) try {
  return podaq::peers::run(std::vector<std::string>(argv + 1, argv + argc));
} catch (const std::exception& error) {
  std::fprintf(stderr, "make_networks: %s\n", error.what());
  return 1;
}
