#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <utility>
#include <vector>

namespace podaq::capture_detail {

/// Keeps a module's parameters, buffers and training flags, and puts them back when it ends.
class ModuleState {
 public:
  explicit ModuleState(std::shared_ptr<torch::nn::Module> module);
  ~ModuleState() { restore(); }
  ModuleState(const ModuleState&) = delete;
  ModuleState& operator=(const ModuleState&) = delete;

  /// Puts back the contents of parameters and buffers that have changed. Their storage stays.
  void restore_tensors() const noexcept;

 private:
  void restore() const noexcept;

  std::shared_ptr<torch::nn::Module> module_;
  std::vector<std::pair<at::Tensor, at::Tensor>> tensors_;                        // the module's own, and a copy
  std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>> is_training_;  // parents before children
};

/// Keeps the state of the default random generators of the CPU and of `device`, and puts it back when it ends.
class RandomState {
 public:
  explicit RandomState(at::Device device);
  ~RandomState();
  RandomState(const RandomState&) = delete;
  RandomState& operator=(const RandomState&) = delete;

  /// Gives these generators a seed.
  void seed(std::uint64_t seed) const;

 private:
  std::vector<std::pair<at::Generator, at::Tensor>> states_;
};

}  // namespace podaq::capture_detail
