#include "podaq/graph/steps.h"

#include <algorithm>
#include <utility>

namespace podaq {

namespace {

// Grows steps while walking over the nodes in execution order.
class StepBuilder {
 public:
  explicit StepBuilder(const Graph& graph)
      : graph_(graph), readers_(reader_counts(graph)), slot_of_value_(graph.values.size()) {}

  void take(std::size_t node) {
    const Op& op = graph_.nodes[node].op;
    const bool joined = (std::holds_alternative<BatchNorm>(op) && join_batch_norm(node)) ||
                        (std::holds_alternative<Add>(op) && join_add(node)) ||
                        (std::holds_alternative<Clamp>(op) && join_clamp(node));
    if (joined) return;
    Slot slot;
    slot.step.node = node;
    slot.clamped = has_clamp(op);
    slots_.push_back(std::move(slot));
    finish(slots_.size() - 1, node);
  }

  [[nodiscard]] std::vector<Step> steps() && {
    std::erase_if(slots_, [](const Slot& slot) { return slot.absorbed; });
    std::ranges::sort(slots_, {}, &Slot::last_node);
    std::vector<Step> steps;
    for (Slot& slot : slots_) steps.push_back(std::move(slot.step));
    return steps;
  }

 private:
  struct Slot {
    Step step;
    std::size_t last_node = 0;
    bool clamped = false;
    bool absorbed = false;  // a dropout that has become part of another step
  };

  // A slot that a node may join, and the dropouts (slots) between the two.
  struct Reach {
    std::size_t slot = 0;
    std::vector<std::size_t> dropouts;
  };

  static bool has_clamp(const Op& op) {
    return std::visit(
        [](const auto& concrete) {
          if constexpr (requires { concrete.clamp; }) return concrete.clamp.has_value();
          return false;
        },
        op);
  }

  static bool adds_input(const Op& op) {
    return std::visit(
        [](const auto& concrete) {
          if constexpr (requires { concrete.adds_input; }) return concrete.adds_input;
          return false;
        },
        op);
  }

  [[nodiscard]] const Op& first_op(const Slot& slot) const { return graph_.nodes[slot.step.node].op; }

  [[nodiscard]] bool is_weighted(const Slot& slot) const { return has_weights(first_op(slot)); }

  // The step that computes `value` for one reader alone, looking through dropouts.
  [[nodiscard]] std::optional<Reach> reach(ValueId value) const {
    Reach found;
    while (readers_[value] == 1 && slot_of_value_[value]) {
      found.slot = *slot_of_value_[value];
      const Node& node = graph_.nodes[slots_[found.slot].step.node];
      if (!std::holds_alternative<Dropout>(node.op)) return found;
      found.dropouts.push_back(found.slot);
      value = node.inputs[0];
    }
    return std::nullopt;
  }

  bool join_batch_norm(std::size_t node) {
    const ValueId input = graph_.nodes[node].inputs[0];
    const auto found = reach(input);
    // Dropout before a batch norm changes the statistics, so it may not lie between.
    if (!found || !found->dropouts.empty()) return false;
    Slot& slot = slots_[found->slot];
    const bool extended = slot.step.batch_norm || slot.step.add || slot.clamped || adds_input(first_op(slot));
    if (!is_weighted(slot) || extended) return false;
    // A linear's channels are its last dimension, a batch norm's are the first.
    if (std::holds_alternative<Linear>(first_op(slot)) && graph_.values[input].shape.size() != 1) return false;
    slot.step.batch_norm = node;
    finish(found->slot, node);
    return true;
  }

  bool join_add(std::size_t node) {
    const std::vector<ValueId>& inputs = graph_.nodes[node].inputs;
    const std::size_t later = computed_after(inputs[1], inputs[0]) ? 1 : 0;
    const auto found = reach(inputs[later]);
    if (!found) return false;
    Slot& slot = slots_[found->slot];
    if (!is_weighted(slot) || slot.step.add || slot.clamped || adds_input(first_op(slot))) return false;
    slot.step.add = node;
    slot.step.residual = inputs[1 - later];
    slot.clamped = has_clamp(graph_.nodes[node].op);
    absorb(*found, node);
    return true;
  }

  bool join_clamp(std::size_t node) {
    const auto found = reach(graph_.nodes[node].inputs[0]);
    if (!found) return false;
    Slot& slot = slots_[found->slot];
    if (!is_weighted(slot) && !std::holds_alternative<Add>(first_op(slot))) return false;
    if (slot.clamped) return false;
    slot.step.clamp = node;
    slot.clamped = true;
    absorb(*found, node);
    return true;
  }

  // Inputs of the graph come before every node.
  [[nodiscard]] bool computed_after(ValueId a, ValueId b) const {
    const auto position = [&](ValueId value) {
      const auto slot = slot_of_value_[value];
      return slot ? static_cast<std::ptrdiff_t>(slots_[*slot].last_node) : -1;
    };
    return position(a) > position(b);
  }

  void absorb(const Reach& found, std::size_t node) {
    for (auto dropout = found.dropouts.rbegin(); dropout != found.dropouts.rend(); ++dropout) {
      slots_[found.slot].step.dropouts.push_back(slots_[*dropout].step.node);
      slots_[*dropout].absorbed = true;
    }
    finish(found.slot, node);
  }

  void finish(std::size_t slot, std::size_t node) {
    slots_[slot].last_node = node;
    slots_[slot].step.output = graph_.nodes[node].output;
    slot_of_value_[graph_.nodes[node].output] = slot;
  }

  const Graph& graph_;
  std::vector<std::size_t> readers_;
  std::vector<Slot> slots_;
  std::vector<std::optional<std::size_t>> slot_of_value_;
};

}  // namespace

std::vector<Step> find_steps(const Graph& graph) {
  StepBuilder builder(graph);
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) builder.take(node);
  return std::move(builder).steps();
}

}  // namespace podaq
