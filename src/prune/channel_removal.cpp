#include "podaq/prune/channel_removal.h"

#include <map>
#include <string>

#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "podaq/prune/channel_sets.h"
#include "podaq/prune/optimizer_state.h"

namespace podaq {

void remove_channels(GraphModule& model, torch::optim::Optimizer& optimizer, const SmallerGraph& smaller) {
  if (smaller.cuts.empty()) return;
  if (const std::string problem = problem_with_cutting(optimizer); !problem.empty())
    throw Error(ErrorCode::invalid_argument, concat("remove channels: ", problem));
  std::map<std::string, torch::Tensor> before;
  for (const auto& item : model.named_parameters())
    if (smaller.cuts.contains(item.key())) before.emplace(item.key(), item.value());
  model.remove_channels(smaller);
  for (const auto& [name, tensor] : before)
    replace_parameter(optimizer, tensor, model.tensor(name), smaller.cuts.at(name));
}

SmallerGraph without_pruned_channels(const GraphModule& model, const Masks& masks) {
  const PrunableChannels channels = find_prunable_channels(model.graph());
  return remove_channels(model.graph(), channels.groups, pruned_channels(model.graph(), channels, masks));
}

}  // namespace podaq
