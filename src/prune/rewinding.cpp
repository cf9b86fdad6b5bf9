#include "podaq/prune/rewinding.h"

#include <c10/core/GradMode.h>

namespace podaq {

NetworkSnapshot take_snapshot(const GraphModule& model) {
  NetworkSnapshot snapshot;
  for (const auto& item : model.named_parameters()) snapshot.emplace(item.key(), item.value().detach().clone());
  for (const auto& item : model.named_buffers()) snapshot.emplace(item.key(), item.value().detach().clone());
  return snapshot;
}

void rewind(const GraphModule& model, const NetworkSnapshot& snapshot) {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : snapshot) model.tensor(name).copy_(tensor);
}

}  // namespace podaq
