#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "compress/network_builder.h"

namespace podaq::test {

/// Builds networks out of the structures that tie channels, in a random order.
class ChannelNetwork {
 public:
  explicit ChannelNetwork(std::uint64_t seed) : net_(seed), random_(seed) {}

  std::shared_ptr<GraphModule> build() {
    ValueId x = net_.conv(net_.input("input", {3, 12}), "stem", 8, 3);
    const std::vector<std::function<ValueId(ValueId, const std::string&)>> blocks = {
        [&](ValueId at, const std::string& name) { return normed_conv(at, name, 4 + 2 * (random_() % 4)); },
        [&](ValueId at, const std::string& name) { return residual(at, name); },
        [&](ValueId at, const std::string& name) {
          return net_.apply(Concat{}, name, {normed_conv(at, name + "a", 4), net_.conv(at, name + "b", 6, 1)});
        },
        [&](ValueId at, const std::string& name) { return net_.conv(at, name, channels(at), 3, true, channels(at)); },
        [&](ValueId at, const std::string& name) { return net_.conv(at, name, 8, 3, true, 2); },
        [&](ValueId at, const std::string& name) { return net_.relu(net_.batch_norm(at, name), name + ".relu"); },
        [&](ValueId at, const std::string& name) { return gated(at, name); },
        [&](ValueId at, const std::string& name) {
          return net_.apply(Clamp{.minimum = 0.125F, .maximum = 2.0F}, name, {at});  // never 0
        },
        [&](ValueId at, const std::string& name) {
          return net_.apply(MaxPool{.kernel = {3}, .stride = {1}, .pads_begin = {1}, .pads_end = {1}, .dilation = {1}},
                            name, {at});
        }};
    for (int i = 0; i < 5; ++i) x = blocks[random_() % blocks.size()](x, "block" + std::to_string(i));
    return net_.build({head(x)});
  }

 private:
  std::int64_t channels(ValueId x) const { return net_.shape_of(x)[0]; }

  ValueId normed_conv(ValueId x, const std::string& name, std::int64_t outputs) {
    const ValueId y = net_.batch_norm(net_.conv(x, name, outputs, 3, false), name + ".norm");
    return net_.relu(y, name + ".relu");
  }

  ValueId residual(ValueId x, const std::string& name) {
    return net_.apply(Add{}, name, {x, normed_conv(normed_conv(x, name + "a", 6), name + "b", channels(x))});
  }

  ValueId gated(ValueId x, const std::string& name) {
    const ValueId gate = net_.conv(x, name + ".gate", channels(x), 1);
    return net_.apply(Mul{}, name, {x, net_.apply(Activation{}, name + ".sigmoid", {gate})});
  }

  ValueId head(ValueId x) {
    if (random_() % 2 == 0) return net_.linear(net_.apply(GlobalMean{}, "mean", {x}), "head", 4);
    const ValueId flat = net_.apply(Reshape{.shape = {channels(x) * 12}}, "flat", {x});
    return net_.linear(net_.relu(net_.linear(flat, "hidden", 10), "hidden.relu"), "head", 4);
  }

  NetworkBuilder net_;
  std::mt19937_64 random_;
};

/// Such a network, with batch-norm statistics that are not their start values.
inline std::shared_ptr<GraphModule> channel_network(std::uint64_t seed) {
  auto model = ChannelNetwork(seed).build();
  torch::manual_seed(seed);
  const torch::NoGradGuard no_grad;
  for (const auto& item : model->named_buffers())
    if (item.value().is_floating_point()) item.value().add_(0.3 * torch::rand_like(item.value()));
  return model;
}

}  // namespace podaq::test
