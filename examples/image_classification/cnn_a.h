#pragma once

#include <torch/nn/modules/container/sequential.h>

#include <cstdint>

namespace podaq::images {

/// CNN-A of the thesis: three pairs of 3x3 convolutions (32, 64, 128 channels) with max-pooling and dropout, then a
/// linear layer of 1024; batch norm and ReLU after every layer but the last.
/// Takes [batch, channels, side, side], side a multiple of 8 or more; gives [batch, classes].
class CnnA : public torch::nn::Module {
 public:
  CnnA(std::int64_t channels, std::int64_t side, std::int64_t classes);
  torch::Tensor forward(torch::Tensor x);

 private:
  torch::nn::Sequential features_;
  torch::nn::Sequential classifier_;
};

}  // namespace podaq::images
