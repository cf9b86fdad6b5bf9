#pragma once

#include <torch/data/samplers/base.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace podaq {

/// A sampler for LibTorch's data loaders that goes through 0 … size-1 in a new random order each epoch and can stop and
/// go on anywhere: the order is a pure function of (seed, epoch).
///
/// LibTorch's loaders copy their sampler. Copies of this one share their state, so that the loader sees what happens to
/// the user's sampler and the other way round. The first `reset()` (a loader calls it where a loop over it begins)
/// starts epoch 0, each later one the next epoch; the first `reset()` after `load()` goes on where the saved one
/// stopped.
///
/// `position()` counts the indices that were handed out. A loader with worker threads reads ahead of the training loop:
/// to resume in mid-epoch, load data without workers, or call `seek()` with the number of samples trained on.
class RandomSampler : public torch::data::samplers::Sampler<> {
 public:
  /// @param size  number of samples, at least 1.
  explicit RandomSampler(std::size_t size, std::uint64_t seed = 1);

  /// Starts the next epoch, or goes on with a loaded one. A new size takes effect with the epoch that starts.
  void reset(std::optional<std::size_t> new_size = std::nullopt) override;
  /// The next `batch_size` indices, fewer at the end of the epoch, none after it.
  std::optional<std::vector<std::size_t>> next(std::size_t batch_size) override;

  /// Writes size, seed, epoch and position.
  void save(torch::serialize::OutputArchive& archive) const override;
  /// Reads what `save` wrote. Throws Error(invalid_argument) where the archive was written for another size.
  void load(torch::serialize::InputArchive& archive) override;

  /// The epoch under way, counted from 0.
  [[nodiscard]] std::uint64_t epoch() const;
  /// How many indices of this epoch were handed out.
  [[nodiscard]] std::size_t position() const;
  /// The next `reset()` starts `epoch` at `position`, at most the number of samples.
  void seek(std::uint64_t epoch, std::size_t position = 0);
  /// The epoch is over, even where indices are left (a loop that leaves out the last, incomplete batch): once it is
  /// saved and loaded, the next `reset()` starts the next epoch.
  void finish_epoch();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace podaq
