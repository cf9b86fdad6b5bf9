// What a program that trains does, small: captures a module and trains it through the captured network.
#include <fmt/format.h>
#include <podaq/capture/capture.h>
#include <torch/torch.h>

static_assert(FMT_VERSION == INSTALLED_FMT, "LibTorch's copy of fmt shadows the installed one");

namespace {

struct NetImpl : torch::nn::Module {
  torch::nn::Conv1d conv = register_module("conv", torch::nn::Conv1d(2, 4, 3));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(4, 3));
  torch::Tensor forward(const torch::Tensor& x) { return head(torch::relu(conv(x)).mean(2)); }
};

}  // namespace

int main() {
  auto net = std::make_shared<NetImpl>();
  auto model = podaq::capture(net, torch::zeros({2, 2, 16}));
  const torch::Tensor data = torch::randn({8, 2, 16});
  const torch::Tensor target = torch::arange(8) % 3;
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  const auto step = [&] {
    optimizer.zero_grad();
    auto loss = torch::nn::functional::cross_entropy(model->forward(data), target);
    loss.backward();
    optimizer.step();
    return loss.item<float>();
  };
  const float first = step();
  float last = first;
  for (int i = 0; i < 20; ++i) last = step();
  fmt::print("loss {} -> {}\n", first, last);
  return last < first ? 0 : 1;
}
