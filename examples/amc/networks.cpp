#include "networks.h"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/pooling.h>

#include <algorithm>
#include <array>
#include <string>

namespace podaq::amc {
namespace nn = torch::nn;

namespace {

nn::Conv1d conv(std::int64_t in, std::int64_t out, std::int64_t taps, std::int64_t stride = 1,
                std::int64_t groups = 1) {
  return nn::Conv1d(nn::Conv1dOptions(in, out, taps).padding(taps / 2).stride(stride).groups(groups).bias(false));
}

void append_classifier(nn::Sequential& classifier, std::int64_t width, std::int64_t classes) {
  constexpr std::int64_t hidden = 128;
  for (int layer = 0; layer < 2; ++layer) {
    classifier->push_back(nn::Linear(nn::LinearOptions(width, hidden).bias(false)));
    classifier->push_back(nn::BatchNorm1d(hidden));
    classifier->push_back(nn::ReLU());
    width = hidden;
  }
  classifier->push_back(nn::Linear(width, classes));
}

SeparableBlock register_block(nn::Module& module, const std::string& name, std::int64_t in, std::int64_t out,
                              std::int64_t taps, std::int64_t stride) {
  return {
      .depthwise = module.register_module(
          name + "_depthwise", nn::Sequential(conv(in, in, taps, stride, in), nn::BatchNorm1d(in), nn::ReLU())),
      .pointwise = module.register_module(name + "_pointwise", nn::Sequential(conv(in, out, 1), nn::BatchNorm1d(out))),
      .residual = stride == 1 && in == out};
}

torch::Tensor run(SeparableBlock& block, const torch::Tensor& x) {
  const torch::Tensor y = block.pointwise->forward(block.depthwise->forward(x));
  return torch::relu(block.residual ? y + x : y);
}

}  // namespace

Vgg10::Vgg10(std::int64_t frame_length, std::int64_t classes) {
  constexpr std::int64_t blocks = 7;
  constexpr std::int64_t channels = 64;
  for (std::int64_t block = 0; block < blocks; ++block) {
    features_->push_back(conv(block == 0 ? 2 : channels, channels, 3));
    features_->push_back(nn::BatchNorm1d(channels));
    features_->push_back(nn::ReLU());
    features_->push_back(nn::MaxPool1d(2));
  }
  append_classifier(classifier_, channels * (frame_length >> blocks), classes);
  register_module("features", features_);
  register_module("classifier", classifier_);
}

torch::Tensor Vgg10::forward(const torch::Tensor& x) {
  return classifier_->forward(features_->forward(x).flatten(1));
}

ResNet::ResNet(std::int64_t frame_length, std::int64_t classes) {
  constexpr std::int64_t stacks = 6;
  constexpr std::int64_t channels = 32;
  for (std::int64_t i = 0; i < stacks; ++i) {
    const std::string name = "stack" + std::to_string(i);
    Stack stack;
    stack.entry = register_module(name + "_entry",
                                  nn::Sequential(conv(i == 0 ? 2 : channels, channels, 1), nn::BatchNorm1d(channels)));
    for (const std::string unit : {"_unit0", "_unit1"})
      stack.units.push_back(
          {.first = register_module(name + unit + "_first",
                                    nn::Sequential(conv(channels, channels, 3), nn::BatchNorm1d(channels), nn::ReLU())),
           .second = register_module(name + unit + "_second",
                                     nn::Sequential(conv(channels, channels, 3), nn::BatchNorm1d(channels)))});
    stacks_.push_back(stack);
  }
  classifier_ = nn::Sequential();
  append_classifier(classifier_, channels * (frame_length >> stacks), classes);
  register_module("classifier", classifier_);
}

torch::Tensor ResNet::forward(torch::Tensor x) {
  for (Stack& stack : stacks_) {
    x = stack.entry->forward(x);
    for (Unit& unit : stack.units) x = torch::relu(unit.second->forward(unit.first->forward(x)) + x);
    x = torch::max_pool1d(x, 2);
  }
  return classifier_->forward(x.flatten(1));
}

SeparableNet::SeparableNet(std::int64_t classes) {
  struct Plan {
    std::int64_t in, out, taps, stride;
  };
  constexpr std::array<Plan, 5> plans = {
      {{2, 24, 27, 2}, {24, 24, 21, 1}, {24, 48, 15, 2}, {48, 48, 9, 1}, {48, 48, 9, 2}}};
  for (std::size_t i = 0; i < plans.size(); ++i)
    blocks_.push_back(
        register_block(*this, "block" + std::to_string(i), plans[i].in, plans[i].out, plans[i].taps, plans[i].stride));
  head_ = register_module("head", nn::Linear(plans.back().out, classes));
}

torch::Tensor SeparableNet::forward(torch::Tensor x) {
  for (SeparableBlock& block : blocks_) x = run(block, x);
  return head_(x.amax(-1));
}

UltraLightNet::UltraLightNet(std::int64_t classes) {
  constexpr std::int64_t channels = 32;
  constexpr int blocks = 6;
  stem_ = register_module("stem", nn::Sequential(conv(2, channels, 7), nn::BatchNorm1d(channels), nn::ReLU()));
  for (int i = 0; i < blocks; ++i)
    blocks_.push_back(register_block(*this, "block" + std::to_string(i), channels, channels, 7, 1));
  head_ = register_module("head", nn::Linear(channels, classes));
}

torch::Tensor UltraLightNet::forward(torch::Tensor x) {
  x = stem_->forward(x);
  for (SeparableBlock& block : blocks_) x = run(block, torch::max_pool1d(x, 2));
  return head_(x.mean(-1));
}

const std::map<std::string, NetworkKind>& network_kinds() {
  static const std::map<std::string, NetworkKind> kinds = {{"vgg10", NetworkKind::vgg10},
                                                           {"resnet", NetworkKind::resnet},
                                                           {"separable", NetworkKind::separable},
                                                           {"ultra_light", NetworkKind::ultra_light}};
  return kinds;
}

std::string network_names() {
  std::string names;
  for (const auto& [name, kind] : network_kinds()) names += (names.empty() ? "" : ", ") + name;
  return names;
}

std::string name_of(NetworkKind kind) {
  const auto named = [kind](const auto& entry) { return entry.second == kind; };
  return std::ranges::find_if(network_kinds(), named)->first;
}

}  // namespace podaq::amc
