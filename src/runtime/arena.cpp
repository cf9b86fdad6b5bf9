#include "runtime/arena.h"

#include <algorithm>

#include "podaq/core/error.h"
#include "podaq/core/text.h"

namespace podaq::runtime_detail {

namespace {

constexpr std::size_t alignment = 64;
constexpr std::size_t largest_arena = std::size_t{1} << 46;

struct Block {
  std::size_t offset = 0, bytes = 0;
  std::size_t last_reader = 0;  ///< Index of the last node that reads the value, or of the node that computes it.
};

// The bytes that a value takes, with the margin that vector loads may touch.
std::size_t padded_bytes(std::size_t sample_bytes, std::size_t max_batch) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(sample_bytes, max_batch, &bytes) || bytes > largest_arena)
    throw Error(ErrorCode::invalid_argument,
                concat("running ", max_batch, " sample(s) at a time, with a value of ", sample_bytes,
                       " bytes each, needs more memory than can be addressed"));
  return (bytes + over_read_bytes + alignment - 1) / alignment * alignment;
}

std::vector<std::size_t> last_readers(const Plan& plan) {
  std::vector<std::size_t> last(plan.values.size(), 0);
  for (std::size_t node = 0; node < plan.nodes.size(); ++node) {
    last[plan.nodes[node].output] = node;
    for (const ValueId input : plan.nodes[node].inputs) last[input] = node;
  }
  return last;
}

// The lowest offset at which `bytes` fit between the blocks in use, which are sorted by offset.
std::size_t first_fit(const std::vector<Block>& in_use, std::size_t bytes) {
  std::size_t offset = 0;
  for (const Block& block : in_use) {
    if (block.offset >= offset + bytes) break;
    offset = std::max(offset, block.offset + block.bytes);
  }
  return offset;
}

// The block of an input that the node, the last to read it, may replace by its output; null where there is none.
Block* block_to_take_over(const Plan& plan, std::size_t node, const std::vector<std::size_t>& last,
                          const ArenaLayout& layout, std::vector<Block>& in_use) {
  const PlanNode& n = plan.nodes[node];
  if (n.kernel->runs_in_place == nullptr || !n.kernel->runs_in_place(n.packed)) return nullptr;
  for (const ValueId input : n.inputs) {
    const bool is_free = layout.offsets[input] != ArenaLayout::external && last[input] == node;
    if (!is_free || plan.values[input].sample_bytes != plan.values[n.output].sample_bytes) continue;
    return &*std::find_if(in_use.begin(), in_use.end(),
                          [&](const Block& block) { return block.offset == layout.offsets[input]; });
  }
  return nullptr;
}

}  // namespace

ArenaLayout plan_arena(const Plan& plan, std::size_t max_batch) {
  ArenaLayout layout;
  layout.offsets.assign(plan.values.size(), ArenaLayout::external);
  const std::vector<std::size_t> last = last_readers(plan);
  std::vector<Block> in_use;
  for (std::size_t node = 0; node < plan.nodes.size(); ++node) {
    std::erase_if(in_use, [&](const Block& block) { return block.last_reader < node; });
    const ValueId output = plan.nodes[node].output;
    if (std::find(plan.output_values.begin(), plan.output_values.end(), output) != plan.output_values.end()) continue;
    if (Block* const block = block_to_take_over(plan, node, last, layout, in_use)) {
      layout.offsets[output] = block->offset;
      block->last_reader = last[output];
      continue;
    }
    const std::size_t bytes = padded_bytes(plan.values[output].sample_bytes, max_batch);
    const Block block{.offset = first_fit(in_use, bytes), .bytes = bytes, .last_reader = last[output]};
    layout.offsets[output] = block.offset;
    layout.bytes = std::max(layout.bytes, block.offset + block.bytes);
    const auto place =
        std::find_if(in_use.begin(), in_use.end(), [&](const Block& other) { return other.offset > block.offset; });
    in_use.insert(place, block);
  }
  layout.scratch_offset = layout.bytes;
  if (plan.scratch_bytes > 0) layout.bytes += padded_bytes(plan.scratch_bytes, 1);
  return layout;
}

}  // namespace podaq::runtime_detail
