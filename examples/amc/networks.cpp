#include "networks.h"

#include <torch/nn/functional/activation.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/pooling.h>

#include <string>

namespace podaq::amc {
namespace nn = torch::nn;

Vgg10::Vgg10(std::int64_t frame_length, std::int64_t classes) {
  constexpr std::int64_t blocks = 7;
  constexpr std::int64_t channels = 64;
  for (std::int64_t block = 0; block < blocks; ++block) {
    features_->push_back(nn::Conv1d(nn::Conv1dOptions(block == 0 ? 2 : channels, channels, 3).padding(1).bias(false)));
    features_->push_back(nn::BatchNorm1d(channels));
    features_->push_back(nn::ReLU());
    features_->push_back(nn::MaxPool1d(2));
  }
  std::int64_t width = channels * (frame_length >> blocks);
  for (int layer = 0; layer < 2; ++layer) {
    classifier_->push_back(nn::Linear(nn::LinearOptions(width, 128).bias(false)));
    classifier_->push_back(nn::BatchNorm1d(128));
    classifier_->push_back(nn::ReLU());
    width = 128;
  }
  classifier_->push_back(nn::Linear(width, classes));
  register_module("features", features_);
  register_module("classifier", classifier_);
}

torch::Tensor Vgg10::forward(torch::Tensor x) {
  return classifier_->forward(features_->forward(x).flatten(1));
}

SeparableNet::SeparableNet(std::int64_t classes) {
  stem_ = register_module("stem", nn::Conv1d(nn::Conv1dOptions(2, 24, 9).padding(4).stride(2).bias(false)));
  stem_norm_ = register_module("stem_norm", nn::BatchNorm1d(24));
  struct Plan {
    std::int64_t in, out, taps, stride;
  };
  const std::vector<Plan> plans = {{24, 24, 9, 1}, {24, 48, 9, 2}, {48, 48, 9, 1}, {48, 48, 9, 2}, {48, 48, 5, 1}};
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const Plan& plan = plans[i];
    const std::string name = "block" + std::to_string(i);
    Block block;
    block.depthwise = register_module(name + "_depthwise", nn::Conv1d(nn::Conv1dOptions(plan.in, plan.in, plan.taps)
                                                                          .padding(plan.taps / 2)
                                                                          .stride(plan.stride)
                                                                          .groups(plan.in)
                                                                          .bias(false)));
    block.depthwise_norm = register_module(name + "_depthwise_norm", nn::BatchNorm1d(plan.in));
    block.pointwise =
        register_module(name + "_pointwise", nn::Conv1d(nn::Conv1dOptions(plan.in, plan.out, 1).bias(false)));
    block.pointwise_norm = register_module(name + "_pointwise_norm", nn::BatchNorm1d(plan.out));
    block.residual = plan.stride == 1 && plan.in == plan.out;
    blocks_.push_back(block);
  }
  head_ = register_module("head", nn::Linear(48, classes));
}

torch::Tensor SeparableNet::forward(torch::Tensor x) {
  x = torch::relu(stem_norm_(stem_(x)));
  for (Block& block : blocks_) {
    torch::Tensor y = torch::relu(block.depthwise_norm(block.depthwise(x)));
    y = block.pointwise_norm(block.pointwise(y));
    x = torch::relu(block.residual ? x + y : y);
  }
  return head_(x.mean(-1));
}

}  // namespace podaq::amc
