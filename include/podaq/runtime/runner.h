#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "podaq/runtime/model.h"

namespace podaq {

/// How a runner is set up.
struct RunnerOptions {
  std::size_t max_batch = 1;  ///< 1 to 65536: the largest batch that memory is planned for. Batches run in slices that
                              ///< suit the CPU's caches, larger ones too.
  std::size_t threads = 1;    ///< 1 to 1024: threads that share a batch, the caller's among them; used where a batch is
                              ///< large enough to gain. Their memory is planned for at most max_batch of them.
};

/// Runs a model. Holds the scratch memory and, where it has more than one, the threads; so each of the program's
/// threads has a runner of its own. Nothing is allocated after construction.
class Runner {
 public:
  /// Plans and allocates all memory. Throws Error(invalid_argument) for an option outside its range, std::system_error
  /// where a thread cannot be started.
  explicit Runner(Model model, RunnerOptions options = {});
  Runner(Runner&&) noexcept;
  Runner& operator=(Runner&&) noexcept;
  ~Runner();

  /// Runs a batch through a network of one input and one output. The batch is input.size() / inputs()[0].size(); a
  /// batch of 0 is allowed. Throws Error(invalid_argument) when sizes do not fit.
  /// @param input   batch samples, row-major.
  /// @param output  receives batch results, row-major.
  void run(std::span<const float> input, std::span<float> output);

  /// What an input is read from.
  struct Input {
    std::string_view name;        ///< One of model().inputs().
    std::span<const float> data;  ///< Batch samples, row-major.
  };
  /// What receives an output.
  struct Output {
    std::string_view name;  ///< One of model().outputs().
    std::span<float> data;  ///< Batch results, row-major.
  };

  /// Runs a batch through a network of several inputs and outputs; each must be named exactly once.
  void run(std::span<const Input> inputs, std::span<const Output> outputs);

  /// The model that it runs.
  [[nodiscard]] const Model& model() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace podaq
