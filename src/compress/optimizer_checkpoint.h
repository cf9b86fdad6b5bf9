#pragma once

#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <filesystem>

#include "podaq/training/graph_module.h"

namespace podaq::compress_detail {

/// The optimizer's state, its kind, and which of the network's parameters it trains in which group.
void write_optimizer(torch::serialize::OutputArchive& archive, const GraphModule& model,
                     const torch::optim::Optimizer& optimizer);

/// Refuses a checkpoint of another kind of optimizer, or of one that trains other parameters or in another order:
/// LibTorch, which knows them by place alone, would hand each the state of another.
void require_same_optimizer(const std::filesystem::path& path, torch::serialize::InputArchive& archive,
                            const GraphModule& model, const torch::optim::Optimizer& optimizer);

/// Reads the state into the optimizer, which stays as it was where that is refused.
void load_optimizer(const std::filesystem::path& path, torch::serialize::InputArchive& saved,
                    torch::optim::Optimizer& optimizer);

}  // namespace podaq::compress_detail
