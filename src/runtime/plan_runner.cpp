#include "runtime/plan_runner.h"

#include <algorithm>

#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "runtime/aligned_memory.h"
#include "runtime/arena.h"

namespace podaq::runtime_detail {

void FreeAligned::operator()(std::byte* memory) const {
  free_aligned(memory, bytes);
}

PlanRunner::PlanRunner(const Plan& plan, std::size_t max_batch) : plan_(&plan) {
  const ArenaLayout layout = plan_arena(plan, max_batch);
  void* memory = allocate_aligned(layout.bytes);
  if (memory == nullptr)
    throw Error(ErrorCode::invalid_argument, concat("running ", max_batch, " sample(s) at a time needs ", layout.bytes,
                                                    " bytes of memory, more than there are"));
  arena_ = {static_cast<std::byte*>(memory), FreeAligned{layout.bytes}};
  scratch_ = arena_.get() + layout.scratch_offset;
  written_.resize(plan.values.size(), nullptr);
  for (std::size_t value = 0; value < written_.size(); ++value)
    if (layout.offsets[value] != ArenaLayout::external) written_[value] = arena_.get() + layout.offsets[value];
  read_.assign(written_.begin(), written_.end());
  std::size_t most_inputs = 0;
  for (const PlanNode& node : plan.nodes) most_inputs = std::max(most_inputs, node.inputs.size());
  operands_.resize(most_inputs);
}

void PlanRunner::run(std::span<const std::span<const float>> inputs, std::span<const std::span<float>> outputs,
                     std::size_t first, std::size_t batch) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    read_[plan_->input_values[i]] =
        reinterpret_cast<const std::byte*>(inputs[i].data() + first * plan_->inputs[i].size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const ValueId value = plan_->output_values[i];
    written_[value] = reinterpret_cast<std::byte*>(outputs[i].data() + first * plan_->outputs[i].size());
    read_[value] = written_[value];
  }
  for (const PlanNode& node : plan_->nodes) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) operands_[i] = read_[node.inputs[i]];
    node.kernel->run(node.packed, {.inputs = std::span(operands_).first(node.inputs.size()),
                                   .output = written_[node.output],
                                   .scratch = scratch_,
                                   .batch = batch});
  }
}

}  // namespace podaq::runtime_detail
