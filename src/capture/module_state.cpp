#include "capture/module_state.h"

#include <torch/torch.h>

#include <mutex>
#include <ranges>

namespace podaq::capture_detail {

namespace {

bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
  // Not a == b alone: a NaN equals itself here.
  return a.sizes() == b.sizes() && a.dtype() == b.dtype() && at::all((a == b) | ((a != a) & (b != b))).item<bool>();
}

}  // namespace

ModuleState::ModuleState(std::shared_ptr<torch::nn::Module> module) : module_(std::move(module)) {
  const torch::NoGradGuard no_grad;
  const auto keep = [&](const at::Tensor& tensor) {
    if (tensor.defined()) tensors_.emplace_back(tensor, tensor.detach().clone());
  };
  for (const at::Tensor& tensor : module_->parameters()) keep(tensor);
  for (const at::Tensor& tensor : module_->buffers()) keep(tensor);
  for (const auto& part : module_->modules()) is_training_.emplace_back(part, part->is_training());
}

void ModuleState::restore_tensors() const noexcept {
  const torch::NoGradGuard no_grad;
  for (const auto& [tensor, copy] : tensors_)
    if (!same_bytes(tensor, copy)) at::Tensor(tensor).copy_(copy);
}

void ModuleState::restore() const noexcept {
  restore_tensors();
  for (const auto& [part, is_training] : is_training_) part->train(is_training);
}

RandomState::RandomState(at::Device device) {
  std::vector<at::Device> devices = {at::kCPU};
  if (device != at::Device(at::kCPU)) devices.push_back(device);
  for (const at::Device each : devices) {
    at::Generator generator = at::globalContext().defaultGenerator(each);
    const std::lock_guard<std::mutex> lock(generator.mutex());
    states_.emplace_back(generator, generator.get_state());
  }
}

RandomState::~RandomState() {
  for (auto& [generator, state] : states_) {
    const std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_state(state);
  }
}

void RandomState::seed(std::uint64_t seed) const {
  for (at::Generator generator : std::views::keys(states_)) {
    const std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_current_seed(seed);
  }
}

}  // namespace podaq::capture_detail
