#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "podaq/compress/compressor.h"
#include "podaq/data/dataset.h"
#include "podaq/training/distillation.h"
#include "podaq/training/graph_module.h"

namespace podaq {

/// How a network is trained: AdamW, learning rate rising linearly from 0, then falling to 0 along a cosine.
struct TrainOptions {
  double epochs = 10;             ///< > 0: the length of the whole learning-rate schedule.
  double first_epoch = 0;         ///< Where in that schedule this call starts, in [0, epochs); 0 for a fresh network.
  double last_epoch = 0;          ///< Where it ends, in (first_epoch, epochs]; 0 means `epochs`.
  std::int64_t batch_size = 256;  ///< 2 to 65536.
  double learning_rate = 2e-3;    ///< > 0: the peak.
  double warm_up_epochs = 1;      ///< In [0, epochs).
  double weight_decay = 1e-2;     ///< >= 0, on weights of two or more dimensions only.
  double label_smoothing = 0;     ///< In [0, 1).
  std::uint64_t seed = 1;         ///< Order of the samples and dropout.
  bool keep_best = true;          ///< End with the epoch of highest validation accuracy, among those whose masks,
                                  ///< observers and batch norms are final; false, or where the recipe has an
                                  ///< [average]: with the last epoch.
};

/// Throws Error(invalid_argument) naming the first option outside its range. `train` does this by itself.
void validate(const TrainOptions& options);

/// The options as text: one line of "name=value" pairs, numbers as they read back. Equal options give equal text.
[[nodiscard]] std::string to_text(const TrainOptions& options);

/// Called after each optimizer step; may throw Error(cancelled).
using StepCallback = std::function<void()>;

/// What a teacher says to each training sample.
struct SoftTargets {
  torch::Tensor logits;              ///< float [N, classes], in the order of the training set.
  std::string teacher;               ///< Who said it, as a hash; checkpoints refuse another's.
  DistillationOptions options = {};  ///< How much the network listens.
};

/// What accompanies a training.
struct TrainSupport {
  StepCallback after_step = {};                  ///< None: nothing is called.
  std::optional<SoftTargets> soft_targets = {};  ///< None: labels alone.
  /// A folder that keeps the training's state after each epoch; needs a compressor. Where it holds one, the training
  /// goes on from there, and ends with the same numbers as if it had not stopped. Empty: nothing is kept.
  std::filesystem::path checkpoint = {};
};

/// Data on their way into training: samples [N, ...] and labels [N], as tensors that view the data set.
struct TensorData {
  torch::Tensor samples;  ///< [N, ...].
  torch::Tensor labels;   ///< [N].
};
/// `dataset` must outlive the result.
[[nodiscard]] TensorData view_as_tensors(const Dataset& dataset);

/// How many optimizer steps `train` takes: one per batch, the last, incomplete batch of an epoch left out.
[[nodiscard]] std::int64_t steps_per_epoch(const Dataset& train, const TrainOptions& options);

/// What training reports; the module itself is left as the chosen epoch made it.
struct TrainResult {
  std::vector<double> validation_accuracy;  ///< One per epoch.
  std::size_t chosen_epoch = 0;             ///< Index into `validation_accuracy`.
  std::int64_t steps = 0;                   ///< Optimizer steps, those before a stop included.
  double seconds = 0;                       ///< Of training and validation, those before a stop included.
};

/// Trains `model` on `train`. With a compressor, its recipe runs along; its epochs must equal the epochs of this call.
/// `validation` alone chooses the epoch. With [average], the network validated and left behind is the average.
/// Throws Error(invalid_argument) naming an option outside its range, and as Compressor::load_checkpoint does for a
/// checkpoint of another training.
TrainResult train(GraphModule& model, Compressor* compressor, const Dataset& train_set, const Dataset& validation,
                  const TrainOptions& options, const TrainSupport& support = {});

/// How many epochs a checkpoint folder's training has behind it; 0 where it holds none. Throws Error(format) for a
/// damaged one.
[[nodiscard]] std::int64_t trained_epochs(const std::filesystem::path& checkpoint);

/// The top-1 class of each sample, by `model` in eval mode: an int64 tensor [N]. Leaves the module's mode as it was.
[[nodiscard]] torch::Tensor predict(GraphModule& model, const Dataset& dataset, std::int64_t batch_size = 512);

}  // namespace podaq
