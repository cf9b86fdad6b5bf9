#include "networks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>
#include <variant>

#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "podaq/graph/verify.h"

namespace podaq::peers {
namespace {

constexpr Clamp relu{.minimum = 0.0F, .maximum = std::numeric_limits<float>::infinity()};

// Appends layers one after another.
class NetworkBuilder {
 public:
  NetworkBuilder(Shape input, std::mt19937_64& random) : random_(random) {
    last_ = add_value(graph_, "input", std::move(input));
    graph_.inputs = {last_};
  }

  // A conv that keeps the length of each spatial dimension.
  NetworkBuilder& conv(const std::string& name, std::int64_t channels, std::int64_t taps, bool biased) {
    const std::size_t dimensions = shape().size() - 1;
    Shape weight = {channels, shape()[0]};
    weight.insert(weight.end(), dimensions, taps);
    const std::vector<std::int64_t> ones(dimensions, 1);
    const std::vector<std::int64_t> pads(dimensions, taps / 2);
    return append(Conv{.stride = ones,
                       .pads_begin = pads,
                       .pads_end = pads,
                       .dilation = ones,
                       .groups = 1,
                       .adds_input = false,
                       .clamp = {}},
                  name, weighted(name, weight, biased));
  }

  NetworkBuilder& linear(const std::string& name, std::int64_t outputs, bool biased) {
    return append(Linear{}, name, weighted(name, {outputs, shape().back()}, biased));
  }

  NetworkBuilder& batch_norm(const std::string& name) {
    const Shape channels = {shape()[0]};
    return append(
        BatchNorm{}, name,
        {random_tensor(name + ".weight", channels, 1.0F, 0.1F), random_tensor(name + ".bias", channels, 0.0F, 0.1F),
         random_tensor(name + ".running_mean", channels, 0.0F, 0.1F),
         random_tensor(name + ".running_var", channels, 1.0F, 0.05F), ""});
  }

  NetworkBuilder& clamp_at_zero(const std::string& name) { return append(relu, name, {}); }

  NetworkBuilder& max_pool(const std::string& name) {
    const std::size_t dimensions = shape().size() - 1;
    const std::vector<std::int64_t> twos(dimensions, 2);
    const std::vector<std::int64_t> zeros(dimensions, 0);
    return append(MaxPool{.kernel = twos,
                          .stride = twos,
                          .pads_begin = zeros,
                          .pads_end = zeros,
                          .dilation = std::vector<std::int64_t>(dimensions, 1)},
                  name, {});
  }

  NetworkBuilder& flatten(const std::string& name) { return append(Reshape{{element_count(shape())}}, name, {}); }

  NetworkBuilder& add(const std::string& name, ValueId other) {
    return append_node({.op = Add{}, .name = name, .inputs = {last_, other}, .tensors = {}, .output = 0});
  }

  [[nodiscard]] ValueId last() const { return last_; }

  [[nodiscard]] Graph finish() && {
    graph_.values[last_].name = "output";
    graph_.outputs = {last_};
    verify(graph_);
    return std::move(graph_);
  }

 private:
  [[nodiscard]] const Shape& shape() const { return graph_.values[last_].shape; }

  std::string random_tensor(const std::string& name, Shape shape, float mean, float deviation) {
    std::normal_distribution<float> draw(mean, deviation);
    std::vector<float> numbers(static_cast<std::size_t>(element_count(shape)));
    for (float& number : numbers) number = draw(random_);
    graph_.tensors[name] = make_tensor<float>(DType::f32, std::move(shape), numbers);
    return name;
  }

  std::vector<std::string> weighted(const std::string& name, const Shape& weight, bool biased) {
    const auto fan_in = static_cast<float>(element_count(weight)) / static_cast<float>(weight[0]);
    return {random_tensor(name + ".weight", weight, 0.0F, std::sqrt(2.0F / fan_in)),
            biased ? random_tensor(name + ".bias", {weight[0]}, 0.0F, 0.1F) : ""};
  }

  NetworkBuilder& append(Op op, const std::string& name, std::vector<std::string> tensors) {
    return append_node(
        {.op = std::move(op), .name = name, .inputs = {last_}, .tensors = std::move(tensors), .output = 0});
  }

  NetworkBuilder& append_node(Node node) {
    const Shape shape = infer_shape(graph_, node);
    last_ = add_value(graph_, node.name, shape);
    node.output = last_;
    graph_.nodes.push_back(std::move(node));
    return *this;
  }

  Graph graph_;
  ValueId last_ = 0;
  std::mt19937_64& random_;
};

Graph vgg10_1d(std::mt19937_64& random) {
  NetworkBuilder net({2, 1024}, random);
  for (int block = 0; block < 7; ++block) {
    const std::string name = concat("block", block);
    net.conv(name + ".conv", 64, 3, false).batch_norm(name + ".norm").clamp_at_zero(name + ".relu");
    net.max_pool(name + ".pool");
  }
  net.flatten("flatten");
  for (int layer = 0; layer < 2; ++layer) {
    const std::string name = concat("classifier", layer);
    net.linear(name + ".linear", 128, false).batch_norm(name + ".norm").clamp_at_zero(name + ".relu");
  }
  return std::move(net.linear("classifier2.linear", 24, true)).finish();
}

Graph resnet_1d(std::mt19937_64& random) {
  NetworkBuilder net({2, 1024}, random);
  for (int stack = 0; stack < 6; ++stack) {
    net.conv(concat("stack", stack, ".conv"), 32, 1, true);
    for (int unit = 0; unit < 2; ++unit) {
      const std::string name = concat("stack", stack, ".unit", unit);
      const ValueId skip = net.last();
      net.conv(name + ".conv0", 32, 3, true).clamp_at_zero(name + ".relu0");
      net.conv(name + ".conv1", 32, 3, true).add(name + ".add", skip).clamp_at_zero(name + ".relu1");
    }
    net.max_pool(concat("stack", stack, ".pool"));
  }
  net.flatten("flatten");
  for (int layer = 0; layer < 2; ++layer) {
    const std::string name = concat("classifier", layer);
    net.linear(name + ".linear", 128, true).clamp_at_zero(name + ".relu");
  }
  return std::move(net.linear("classifier2.linear", 24, true)).finish();
}

Graph cnn_a(std::mt19937_64& random) {
  NetworkBuilder net({1, 28, 28}, random);
  for (int stage = 0; stage < 3; ++stage) {
    for (int layer = 0; layer < 2; ++layer) {
      const std::string name = concat("stage", stage, ".", layer);
      net.conv(name + ".conv", 32 << stage, 3, false).batch_norm(name + ".norm").clamp_at_zero(name + ".relu");
    }
    net.max_pool(concat("stage", stage, ".pool"));
  }
  net.flatten("flatten").linear("classifier0.linear", 1024, false).batch_norm("classifier0.norm");
  return std::move(net.clamp_at_zero("classifier0.relu").linear("classifier1.linear", 10, true)).finish();
}

Graph vgg16(std::mt19937_64& random) {
  NetworkBuilder net({3, 32, 32}, random);
  const std::vector<std::vector<std::int64_t>> stages = {
      {64, 64}, {128, 128}, {256, 256, 256}, {512, 512, 512}, {512, 512, 512}};
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    for (std::size_t layer = 0; layer < stages[stage].size(); ++layer) {
      const std::string name = concat("stage", stage, ".", layer);
      net.conv(name + ".conv", stages[stage][layer], 3, true).clamp_at_zero(name + ".relu");
    }
    net.max_pool(concat("stage", stage, ".pool"));
  }
  net.flatten("flatten");
  for (int layer = 0; layer < 2; ++layer) {
    const std::string name = concat("classifier", layer);
    net.linear(name + ".linear", 4096, true).clamp_at_zero(name + ".relu");
  }
  return std::move(net.linear("classifier2.linear", 10, true)).finish();
}

struct NamedNetwork {
  std::string_view name;
  Graph (*build)(std::mt19937_64&);
};
constexpr NamedNetwork networks[] = {
    {"vgg10_1d", vgg10_1d}, {"resnet_1d", resnet_1d}, {"cnn_a", cnn_a}, {"vgg16", vgg16}};

// True for `zeros` of `count` places.
std::vector<char> random_places(std::size_t count, std::size_t zeros, std::mt19937_64& random) {
  std::vector<char> places(count, 0);
  std::fill_n(places.begin(), zeros, 1);
  std::shuffle(places.begin(), places.end(), random);
  return places;
}

void prune_layer(Tensor& weight, std::size_t rows_per_block, double sparsity, std::mt19937_64& random) {
  const std::span<float> weights = elements<float>(weight);
  const auto rows = static_cast<std::size_t>(weight.shape[0]);
  const std::size_t columns = weights.size() / rows;
  const std::size_t blocks = (rows + rows_per_block - 1) / rows_per_block * columns;
  const auto zeros = static_cast<std::size_t>(std::floor(static_cast<double>(blocks) * sparsity + 0.5));
  const std::vector<char> pruned = random_places(blocks, zeros, random);
  const float scale = 1.0F / std::sqrt(1.0F - static_cast<float>(sparsity));
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t column = 0; column < columns; ++column) {
      float& number = weights[row * columns + column];
      number = pruned[row / rows_per_block * columns + column] != 0 ? 0.0F : number * scale;
    }
}

}  // namespace

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  for (const NamedNetwork& network : networks) names.emplace_back(network.name);
  return names;
}

Graph build_network(std::string_view name, std::mt19937_64& random) {
  for (const NamedNetwork& network : networks)
    if (network.name == name) return network.build(random);
  throw Error(ErrorCode::invalid_argument, concat("there is no network '", name, "'"));
}

void prune_weights(Graph& graph, Pattern pattern, double sparsity, std::mt19937_64& random) {
  if (pattern == Pattern::dense) return;
  for (const Node& node : graph.nodes)
    if (has_weights(node.op))
      prune_layer(graph.tensors.at(node.tensors[0]), pattern == Pattern::block_4x1 ? 4 : 1, sparsity, random);
}

}  // namespace podaq::peers
