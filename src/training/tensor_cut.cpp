#include "podaq/training/tensor_cut.h"

#include <torch/torch.h>

#include <cstdint>

namespace podaq {

torch::Tensor cut_tensor(const torch::Tensor& tensor, std::span<const TensorCut> cuts) {
  if (!tensor.defined()) return {};
  const torch::NoGradGuard no_grad;
  torch::Tensor left = tensor.detach();
  for (const TensorCut& cut : cuts)
    left = left.index_select(static_cast<std::int64_t>(cut.dimension),
                             torch::tensor(cut.kept, torch::kLong).to(tensor.device()));
  return cuts.empty() ? left.clone() : left.contiguous();
}

void cut_tensors(std::map<std::string, torch::Tensor>& tensors, const SmallerGraph& smaller) {
  for (const auto& [name, cuts] : smaller.cuts)
    if (const auto found = tensors.find(name); found != tensors.end()) found->second = cut_tensor(found->second, cuts);
}

}  // namespace podaq
