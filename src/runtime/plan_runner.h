#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "runtime/plan.h"

namespace podaq::runtime_detail {

/// Frees memory of allocate_aligned.
struct FreeAligned {
  std::size_t bytes = 0;
  void operator()(std::byte* memory) const;
};

/// The memory in which one thread runs a plan; nothing is allocated after construction.
class PlanRunner {
 public:
  /// Throws Error(invalid_argument) where `max_batch` samples need more memory than there is.
  PlanRunner(const Plan& plan, std::size_t max_batch);

  /// Computes samples [first, first + batch), at most max_batch, of whole batches.
  /// @param inputs   One per input of the plan.
  /// @param outputs  One per output.
  void run(std::span<const std::span<const float>> inputs, std::span<const std::span<float>> outputs, std::size_t first,
           std::size_t batch);

 private:
  const Plan* plan_;
  std::unique_ptr<std::byte, FreeAligned> arena_;
  std::byte* scratch_ = nullptr;
  std::vector<std::byte*> written_;         ///< By ValueId; the model's outputs move with each slice.
  std::vector<const std::byte*> read_;      ///< By ValueId; the model's inputs and outputs likewise.
  std::vector<const std::byte*> operands_;  ///< The inputs of the node that runs.
};

}  // namespace podaq::runtime_detail
