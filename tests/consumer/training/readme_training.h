#pragma once

// What the README's training program takes from its reader: a module, a data set, a loader over it.
#include <podaq/podaq.h>
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>

struct MyNet : torch::nn::Module {
  torch::nn::Conv1d conv = register_module("conv", torch::nn::Conv1d(2, 16, 8));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(16));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(16, 4));
  torch::Tensor forward(const torch::Tensor& x) { return head(torch::relu(norm(conv(x))).mean(2)); }
};

/// Frames of noise, each of its class's mean.
struct Frames : torch::data::datasets::Dataset<Frames> {
  torch::data::Example<> get(std::size_t index) override {
    const auto label = static_cast<std::int64_t>(index) % 4;
    return {torch::randn({2, 1024}) + static_cast<double>(label), torch::tensor(label)};
  }
  torch::optional<std::size_t> size() const override { return 64; }
};

inline const std::int64_t loader_steps = 4;
inline const std::size_t batch_size = 16;
inline auto dataset = Frames().map(torch::data::transforms::Stack<>());
inline auto loader = torch::data::make_data_loader(dataset, podaq::RandomSampler(64), batch_size);
