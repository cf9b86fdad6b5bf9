#include "compress/goldbarg_checkpoint.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>

#include "compress/checkpoint_tensors.h"
#include "podaq/numerics/rounding.h"

namespace podaq::compress_detail {

void write_goldbarg_state(torch::serialize::OutputArchive& archive, const GoldbargState& state) {
  NamedTensors steps;
  for (const auto& [name, step] : state.steps) steps.emplace_back(name, torch::tensor({step}, torch::kFloat));
  archive.write("goldbarg_position", c10::IValue(state.updated_position));
  write_tensors(archive, "goldbarg_steps", steps);
}

GoldbargState read_goldbarg_state(const std::filesystem::path& path, const GoldbargTraining* own,
                                  torch::serialize::InputArchive& archive) {
  GoldbargState state{.updated_position = read_integer(archive, "goldbarg_position"), .steps = {}};
  for (const auto& [name, saved] : read_tensors(archive, "goldbarg_steps")) {
    if (saved.scalar_type() != torch::kFloat || saved.numel() != 1)
      refuse_checkpoint(path, fmt::format("the step of '{}' is no number", name));
    const auto step = saved.item<float>();
    if (step != 0 && !numerics::is_valid_scale(step))
      refuse_checkpoint(path, fmt::format("the step of '{}' is {}, which is none", name, step));
    state.steps.emplace(name, step);
  }
  const bool has_begun = state.updated_position >= 0;
  if (own == nullptr && (has_begun || !state.steps.empty()))
    refuse_checkpoint(path, "holds steps of [goldbarg], which the recipe has not");
  if (own == nullptr) return state;
  std::map<std::string, float> expected;
  if (has_begun && own->rounds())
    for (const std::string& name : own->tensors()) expected.emplace(name, 0.0F);
  const auto same_name = [](const auto& a, const auto& b) { return a.first == b.first; };
  if (!std::ranges::equal(state.steps, expected, same_name))
    refuse_checkpoint(path, "the steps of [goldbarg] are not those of the network's tensors");
  return state;
}

}  // namespace podaq::compress_detail
