#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "podaq/capture/capture.h"
#include "podaq/core/error.h"

namespace podaq::testing {

/// A module whose forward is given by a function, with the layers that the function uses.
class FunctionNet : public torch::nn::Module {
 public:
  using Body = std::function<torch::Tensor(FunctionNet&, torch::Tensor)>;
  explicit FunctionNet(Body body) : body_(std::move(body)) {}

  template <typename Holder>
  FunctionNet& with(const std::string& name, Holder layer) {
    register_module(name, layer.ptr());
    return *this;
  }

  torch::Tensor forward(const torch::Tensor& x) { return body_(*this, x); }

  torch::Tensor conv1d(const std::string& name, const torch::Tensor& x) {
    return layer<torch::nn::Conv1dImpl>(name, x);
  }
  torch::Tensor linear(const std::string& name, const torch::Tensor& x) {
    return layer<torch::nn::LinearImpl>(name, x);
  }

  template <typename Layer>
  torch::Tensor layer(const std::string& name, const torch::Tensor& x) {
    return named_children()[name]->as<Layer>()->forward(x);
  }

 private:
  Body body_;
};

/// conv (2 -> 4 channels, 3 taps, padding 1, 1-D), then `body` on its output.
inline std::shared_ptr<FunctionNet> after_conv1d(std::function<torch::Tensor(const torch::Tensor&)> body) {
  auto net = std::make_shared<FunctionNet>(
      [body = std::move(body)](FunctionNet& self, torch::Tensor x) { return body(self.conv1d("conv", x)); });
  net->with("conv", torch::nn::Conv1d(torch::nn::Conv1dOptions(2, 4, 3).padding(1)));
  return net;
}

/// The same in 2-D.
inline std::shared_ptr<FunctionNet> after_conv2d(std::function<torch::Tensor(const torch::Tensor&)> body) {
  auto net = std::make_shared<FunctionNet>([body = std::move(body)](FunctionNet& self, torch::Tensor x) {
    return body(self.layer<torch::nn::Conv2dImpl>("conv", x));
  });
  net->with("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 4, 3).padding(1)));
  return net;
}

inline double largest_difference(const torch::Tensor& a, const torch::Tensor& b) {
  EXPECT_EQ(a.sizes(), b.sizes());
  return a.numel() == 0 ? 0.0 : (a - b).abs().max().item<double>();
}

inline double largest_magnitude(const torch::Tensor& a) {
  return a.numel() == 0 ? 0.0 : a.abs().max().item<double>();
}

/// Gradients of a fixed weighted sum of the output by every parameter, and by the input.
template <typename Model>
std::vector<torch::Tensor> gradients(Model& model, const torch::Tensor& input) {
  torch::manual_seed(7);
  torch::Tensor x = input.detach().clone().set_requires_grad(true);
  const torch::Tensor output = model.forward(x);
  torch::manual_seed(8);
  const torch::Tensor loss = (output * torch::randn(output.sizes())).sum();
  std::vector<torch::Tensor> with_respect_to = {x};
  for (const auto& item : model.named_parameters()) with_respect_to.push_back(item.value());
  return torch::autograd::grad({loss}, with_respect_to, {}, std::nullopt, false, true);
}

/// Same outputs in eval mode at several batch sizes; same outputs, dropout included, and same gradients in train mode.
template <typename Net>
void expect_same_network(Net& net, GraphModule& captured, torch::Tensor sample, double tolerance = 1e-5) {
  std::vector<std::int64_t> sizes = sample.sizes().vec();
  for (const std::int64_t batch : {1, 2, 5, 8}) {
    sizes[0] = batch;
    const torch::Tensor x = torch::randn(sizes);
    net.eval();
    captured.eval();
    const torch::NoGradGuard no_grad;
    EXPECT_LE(largest_difference(net.forward(x), captured.forward(x)), tolerance) << "eval mode, batch " << batch;
  }
  sizes[0] = 6;
  const torch::Tensor x = torch::randn(sizes);
  net.train();
  captured.train();
  ASSERT_EQ(net.named_parameters().size(), captured.named_parameters().size());
  const auto expected = gradients(net, x);
  const auto got = gradients(captured, x);
  std::vector<std::string> names = {"input"};
  for (const auto& item : net.named_parameters()) names.push_back(item.key());
  std::vector<std::string> captured_names = {"input"};
  for (const auto& item : captured.named_parameters()) captured_names.push_back(item.key());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto found = std::find(captured_names.begin(), captured_names.end(), names[i]);
    ASSERT_NE(found, captured_names.end()) << names[i];
    const torch::Tensor& gradient = got[static_cast<std::size_t>(found - captured_names.begin())];
    ASSERT_EQ(expected[i].defined(), gradient.defined()) << names[i];
    if (!gradient.defined()) continue;
    const double scale = std::max(1.0, largest_magnitude(expected[i]));
    EXPECT_LE(largest_difference(expected[i], gradient), 1e-4 * scale) << "gradient of " << names[i];
  }
}

/// The text of the Error(capture) that capturing throws; fails the test where it throws none.
template <typename Net>
std::string refusal(const std::shared_ptr<Net>& net, const torch::Tensor& sample) {
  try {
    static_cast<void>(capture(net, sample));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::capture) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "the capture was not refused";
  return "";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace podaq::testing
