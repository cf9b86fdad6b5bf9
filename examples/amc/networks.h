#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace podaq::amc {

/// VGG10-1D, the reference network of the ITU challenge: seven blocks of convolution (64 channels, 3 taps, padding 1),
/// batch norm, ReLU and max-pooling by 2, then linear layers of 128, 128 and `classes`.
/// Takes [batch, 2, frame_length], frame_length a multiple of 128; gives [batch, classes].
class Vgg10 : public torch::nn::Module {
 public:
  Vgg10(std::int64_t frame_length, std::int64_t classes);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  torch::nn::Sequential features_;
  torch::nn::Sequential classifier_;
};

/// ResNet-1D of the RadioML 2018 authors' kind: six stacks of a pointwise convolution to 32 channels, two residual
/// units of two convolutions (3 taps) and max-pooling by 2, then linear layers of 128, 128 and `classes`; with batch
/// norms. Takes [batch, 2, frame_length], frame_length a multiple of 64; gives [batch, classes].
class ResNet : public torch::nn::Module {
 public:
  ResNet(std::int64_t frame_length, std::int64_t classes);
  torch::Tensor forward(torch::Tensor x);

 private:
  struct Unit {
    torch::nn::Sequential first{nullptr};   ///< Convolution, batch norm, ReLU.
    torch::nn::Sequential second{nullptr};  ///< Convolution, batch norm.
  };
  struct Stack {
    torch::nn::Sequential entry{nullptr};  ///< Pointwise convolution, batch norm.
    std::vector<Unit> units;
  };
  std::vector<Stack> stacks_;
  torch::nn::Sequential classifier_{nullptr};
};

/// A depthwise-separable block: a convolution of each channel by itself, then one across channels, each with a batch
/// norm and ReLU; the input is added where both have the same shape.
struct SeparableBlock {
  torch::nn::Sequential depthwise{nullptr};
  torch::nn::Sequential pointwise{nullptr};  ///< Convolution, batch norm.
  bool residual = false;
};

/// A network of BacalhauNet's size, the winner of the ITU challenge: five depthwise-separable blocks of 27 to 9 taps,
/// 24 and 48 channels and strides of 2, 1, 2, 1, 2, the maximum over time, and a linear layer. Takes [batch, 2,
/// frame_length], frame_length >= 32; gives [batch, classes].
class SeparableNet : public torch::nn::Module {
 public:
  explicit SeparableNet(std::int64_t classes);
  torch::Tensor forward(torch::Tensor x);

 private:
  std::vector<SeparableBlock> blocks_;
  torch::nn::Linear head_{nullptr};
};

/// A network of ULCNN's size, some 9 500 parameters: a convolution to 32 channels, six depthwise-separable residual
/// blocks with max-pooling by 2 in between, the mean over time, and a linear layer.
/// Takes [batch, 2, frame_length], frame_length >= 64; gives [batch, classes].
class UltraLightNet : public torch::nn::Module {
 public:
  explicit UltraLightNet(std::int64_t classes);
  torch::Tensor forward(torch::Tensor x);

 private:
  torch::nn::Sequential stem_{nullptr};
  std::vector<SeparableBlock> blocks_;
  torch::nn::Linear head_{nullptr};
};

/// The networks above.
enum class NetworkKind { vgg10, resnet, separable, ultra_light };

/// Their names on command lines and in studies.
[[nodiscard]] const std::map<std::string, NetworkKind>& network_kinds();

/// All names, for people: "resnet, separable, ...".
[[nodiscard]] std::string network_names();

/// The name of `kind` among network_kinds.
[[nodiscard]] std::string name_of(NetworkKind kind);

}  // namespace podaq::amc
