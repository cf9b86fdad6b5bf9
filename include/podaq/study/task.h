#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "podaq/compress/recipe.h"
#include "podaq/data/dataset.h"
#include "podaq/graph/graph.h"
#include "podaq/study/trainer.h"
#include "podaq/training/distillation.h"
#include "podaq/training/graph_module.h"

namespace podaq {

/// Data that never mix: parameters come from `train`, choices from `validation`, reported figures from `test`.
struct TaskData {
  Dataset train;       ///< Parameters come from here.
  Dataset validation;  ///< Choices come from here.
  Dataset test;        ///< Reported figures come from here.
};

/// A user's network and what capture made of it; they share their parameters.
struct TaskNetwork {
  std::shared_ptr<torch::nn::Module> module;                   ///< The user's own.
  std::function<torch::Tensor(const torch::Tensor&)> forward;  ///< The module's own forward.
  std::shared_ptr<GraphModule> captured;                       ///< What is trained.
};

/// Whom a strategy's network listens to.
struct Teaching {
  /// Another strategy, of which the network of the same seed teaches, or else the path of a .podaq file of the same
  /// inputs and classes.
  std::string teacher;
  DistillationOptions options = {};  ///< How much it listens.
};

/// A way of training: "dense", "prune", "quantize", "prune_quantize", and the recipe behind it.
struct Strategy {
  std::string name;  ///< File-name safe.
  Recipe recipe;     ///< What the compressor does.
  std::filesystem::path file =
      {};  ///< Where its network goes; empty: `<task>-<name>.podaq` in the comparison's folder.
  std::optional<Teaching> teaching = {};  ///< None: it learns from labels alone.
};

/// A number that a task reads off a network besides accuracy and size, such as a challenge's score.
struct Figure {
  std::string name;                             ///< How reports call it.
  std::function<double(const Graph&)> of_file;  ///< From the graph as the file holds it.
};

/// An example problem: what `compare_strategies` and `podaq-train compress` work on.
struct Task {
  std::string name;         ///< File-name safe: "amc-quick".
  std::string description;  ///< One line for the user.
  /// All that data and networks depend on besides the seed, as text: what a study keeps is kept under it.
  std::string identity;
  std::function<TaskData(std::uint64_t seed, int threads)> load_data;  ///< Makes or reads the data.
  std::function<TaskNetwork(std::uint64_t seed)> make_network;         ///< Makes an untrained network.
  TrainOptions training;             ///< `epochs`, `first_epoch`, `last_epoch` and `seed` are set by the study.
  double shared_epochs = 0;          ///< Dense epochs that every strategy starts from.
  std::vector<Strategy> strategies;  ///< The rows of the table.
  std::int32_t high_group = 0;       ///< Accuracy is reported again over groups (SNRs) >= this.
  std::vector<Figure> figures = {};  ///< Further columns of the tables.
};

/// The four strategies of the tables, from `folder`/{dense,prune,quantize,prune_quantize}.toml. Throws as Recipe::load.
[[nodiscard]] std::vector<Strategy> load_strategies(const std::filesystem::path& folder);

}  // namespace podaq
