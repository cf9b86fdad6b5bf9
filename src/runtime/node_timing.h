#pragma once

#include <cstddef>
#include <vector>

#include "runtime/aligned_vector.h"
#include "runtime/plan.h"

namespace podaq::runtime_detail {

/// A plan with memory of its own, so that single nodes can be run and timed. Inputs hold a fixed signal.
class NodeRunner {
 public:
  NodeRunner(Plan plan, std::size_t batch);

  [[nodiscard]] const Plan& plan() const { return plan_; }

  /// Computes one node of the plan from what its inputs hold now.
  void run(const PlanNode& node);
  /// Computes all of them.
  void run_all();

 private:
  Plan plan_;
  std::size_t batch_;
  AlignedVector<std::byte> memory_;
  std::vector<AlignedVector<std::byte>> outside_;  ///< By value: the model's inputs and outputs.
  std::vector<std::byte*> places_;                 ///< By value.
  std::vector<const std::byte*> operands_;
  std::byte* scratch_ = nullptr;
};

/// Times of nodes within whole runs, so that caches are as they are in use. Rounds of several plans may be interleaved,
/// so that a noisy machine slows all alike.
class NodeTimer {
 public:
  /// @param runner  Must outlive the timer.
  explicit NodeTimer(NodeRunner& runner) : runner_(&runner), times_(runner.plan().nodes.size()) {}

  /// Runs the whole plan once and keeps each node's time.
  void run_round();

  /// The median over all rounds of each node of the plan, in ns a batch; needs at least one round.
  [[nodiscard]] std::vector<double> medians() const;

 private:
  NodeRunner* runner_;
  std::vector<std::vector<float>> times_;  ///< By node, in ns.
};

}  // namespace podaq::runtime_detail
