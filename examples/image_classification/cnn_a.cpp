#include "cnn_a.h"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

namespace podaq::images {
namespace nn = torch::nn;

CnnA::CnnA(std::int64_t channels, std::int64_t side, std::int64_t classes) {
  struct Stage {
    std::int64_t width;
    double dropout;
  };
  std::int64_t in = channels;
  for (const Stage stage : {Stage{32, 0.2}, Stage{64, 0.3}, Stage{128, 0.4}}) {
    for (int layer = 0; layer < 2; ++layer) {
      features_->push_back(nn::Conv2d(nn::Conv2dOptions(in, stage.width, 3).padding(1).bias(false)));
      features_->push_back(nn::BatchNorm2d(stage.width));
      features_->push_back(nn::ReLU());
      in = stage.width;
    }
    features_->push_back(nn::MaxPool2d(2));
    features_->push_back(nn::Dropout(stage.dropout));
  }
  const std::int64_t left = side / 8;
  classifier_->push_back(nn::Linear(nn::LinearOptions(in * left * left, 1024).bias(false)));
  classifier_->push_back(nn::BatchNorm1d(1024));
  classifier_->push_back(nn::ReLU());
  classifier_->push_back(nn::Dropout(0.5));
  classifier_->push_back(nn::Linear(1024, classes));
  register_module("features", features_);
  register_module("classifier", classifier_);
}

torch::Tensor CnnA::forward(torch::Tensor x) {
  return classifier_->forward(features_->forward(x).flatten(1));
}

}  // namespace podaq::images
