#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "podaq/study/study.h"

namespace podaq {

/// One value of a study file's [task], and where it stands.
struct TaskWord {
  std::string text;    ///< Text as it is, numbers as they read back.
  std::string origin;  ///< "study.toml:7".
};

/// A study file's [task] by key; each program knows its own.
using TaskWords = std::map<std::string, TaskWord>;

/// The number in a word of [task]. Throws Error(recipe), naming where it stands, for other text.
[[nodiscard]] double number_in(const std::string& key, const TaskWord& word);

/// Refuses a key of [task] that a program does not know. Throws Error(recipe) naming where it stands.
[[noreturn]] void refuse_key(const std::string& key, const TaskWord& word, const std::string& known);

/// Reads a study:
///
///     seeds = [1, 2, 3]
///     folder = "results/quick"            # from where the program runs; by default results/ and the file's name
///     confusion = [-10, 0, 18]            # the groups whose confusion matrices the report shows
///
///     [task]                              # what the program makes its task of
///     preset = "quick"
///
///     [training]                          # in place of the task's own
///     shared_epochs = 4
///     learning_rate = 3e-3                # also batch_size, warm_up_epochs, weight_decay, label_smoothing
///
///     [distillation]
///     teacher = "dense"                   # a row, or a .podaq file (from where the program runs)
///     weight = 0.5
///     temperature = 4
///
///     [[rows]]
///     name = "tiny"                       # by default the recipe's file name
///     recipe = "../recipes/tiny.toml"     # from where the study lies
///     length = 2                          # factor of all its stages
///     distilled = true
///
///     [grid]                              # all combinations, of the recipes that the task's strategies have
///     strategies = ["prune", "prune_quantize"]
///     sparsities = [0.8, 0.9]
///     weight_bits = [8, 4]
///     lengths = [1, 3]
///     distilled = [false, true]
///
/// Where no dense row trains for as many epochs as the longest row, one is added, and a distilled one where rows are
/// distilled. Throws Error(recipe) naming file, line and key for text that is no TOML, an unknown key, or a value of
/// another type or outside its range, and as `make_task` and Recipe::load do.
[[nodiscard]] Study load_study(const std::filesystem::path& path,
                               const std::function<Task(const TaskWords&)>& make_task);

}  // namespace podaq
