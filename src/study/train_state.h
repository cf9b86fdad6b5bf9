#pragma once

#include <filesystem>

#include "podaq/compress/compressor.h"
#include "podaq/prune/rewinding.h"
#include "podaq/study/trainer.h"
#include "podaq/training/graph_module.h"

// What a training must keep to go on after a stop, besides what the compressor's checkpoints hold.

namespace podaq::study_detail {

/// A training between two epochs.
struct TrainState {
  TrainResult result = {};    ///< Of the epochs so far.
  NetworkSnapshot best = {};  ///< The network of `result.chosen_epoch`; empty before one could be chosen.
  double best_accuracy = -1;  ///< Its validation accuracy.
};

/// Writes state, the network's random generator and the compressor's checkpoint to `folder`. A kill at any moment
/// leaves either what was there or the new: the compressor's checkpoint has the epoch in its name, and the file that
/// names that epoch is written last.
void keep(const std::filesystem::path& folder, const TrainOptions& options, const GraphModule& model,
          const Compressor& compressor, const TrainState& state);

/// Takes up what `keep` wrote, if there is anything; `compressor` must be attached. Throws Error(format) for a damaged
/// file and Error(invalid_argument) for one of another training, naming it.
void resume(const std::filesystem::path& folder, const TrainOptions& options, GraphModule& model,
            Compressor& compressor, TrainState& state);

}  // namespace podaq::study_detail
