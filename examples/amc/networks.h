#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>
#include <vector>

namespace podaq::amc {

/// VGG10-1D, the reference network of the ITU challenge: seven blocks of convolution (64 channels, 3 taps, padding 1),
/// batch norm, ReLU and max-pooling by 2, then linear layers of 128, 128 and `classes`.
/// Takes [batch, 2, frame_length], frame_length a multiple of 128; gives [batch, classes].
class Vgg10 : public torch::nn::Module {
 public:
  Vgg10(std::int64_t frame_length, std::int64_t classes);
  torch::Tensor forward(torch::Tensor x);

 private:
  torch::nn::Sequential features_;
  torch::nn::Sequential classifier_;
};

/// A small network of depthwise-separable blocks with residual additions and a global mean.
/// Takes [batch, 2, frame_length], frame_length >= 8; gives [batch, classes].
class SeparableNet : public torch::nn::Module {
 public:
  explicit SeparableNet(std::int64_t classes);
  torch::Tensor forward(torch::Tensor x);

 private:
  struct Block {
    torch::nn::Conv1d depthwise{nullptr};
    torch::nn::BatchNorm1d depthwise_norm{nullptr};
    torch::nn::Conv1d pointwise{nullptr};
    torch::nn::BatchNorm1d pointwise_norm{nullptr};
    bool residual = false;
  };
  torch::nn::Conv1d stem_{nullptr};
  torch::nn::BatchNorm1d stem_norm_{nullptr};
  std::vector<Block> blocks_;
  torch::nn::Linear head_{nullptr};
};

}  // namespace podaq::amc
