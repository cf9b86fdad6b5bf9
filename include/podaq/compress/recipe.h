#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "podaq/prune/criterion.h"
#include "podaq/prune/distribution.h"
#include "podaq/prune/pattern.h"
#include "podaq/prune/regrowth.h"
#include "podaq/prune/schedule.h"
#include "podaq/quantize/adaptive_rounding.h"
#include "podaq/quantize/observer.h"
#include "podaq/quantize/threshold_step.h"
#include "podaq/quantize/weight_scales.h"

namespace podaq {

/// The stages of a recipe, in the order they run.
enum class Stage : std::uint8_t { dense, prune, recover, quantize, freeze_batch_norm, freeze_observers, goldbarg };

/// The stage's name as recipes spell it.
[[nodiscard]] std::string_view name_of(Stage stage);

/// How long each stage lasts, in epochs; fractions are allowed and 0 leaves a stage out. Stages run in this order.
struct StageLengths {
  double dense = 0;              ///< Plain training.
  double prune = 0;              ///< The sparsity ramps up to its target.
  double recover = 0;            ///< Masks fixed, still float.
  double quantize = 0;           ///< Fake quantization, masks fixed; batch norms use batch statistics.
  double freeze_batch_norm = 0;  ///< Batch-norm statistics fixed and folded.
  double freeze_observers = 0;   ///< Activation ranges fixed too.
  double goldbarg = 0;           ///< Pruned and quantized by thresholds (GoldbargRecipe); goes with dense alone.
};

/// A sparsity for the layers that a glob chooses.
struct LayerSparsity {
  std::string layers;   ///< Glob of layer or weight names.
  double sparsity = 0;  ///< In [0, 1).
};

/// What is pruned, how much of it, and when.
struct PruneRecipe {
  /// The share of pruned units (see Pattern) at the end, in [0, 1). Under the pattern n:m it is 1 - n/m or left out
  /// (0), under the criterion threshold left out.
  double sparsity = 0;
  double initial_sparsity = 0;                        ///< The share where the ramp starts, in [0, sparsity].
  Criterion criterion = MagnitudeL1{};                ///< What goes first.
  Pattern pattern = UnstructuredPattern{};            ///< What goes together.
  Distribution distribution = Distribution::uniform;  ///< How the zeros fall to the layers.
  ScheduleKind schedule = ScheduleKind::cubic;        ///< How sparsity rises over the prune stage.
  std::optional<std::int64_t> rounds = {};            ///< 1 to 1000: jumps of the schedule iterative, which needs it.
  /// After each round of the schedule iterative the weights that are left, and all other parameters and buffers, return
  /// to what they were at this epoch, and the optimizer starts anew. Before the first round's end; none: no rewinding.
  std::optional<double> rewind_epoch = {};
  /// Optimizer steps between changes of the masks, 1 to 10^8. None: the ramp's steps / 100 rounded down, at least 1, so
  /// that choosing what goes takes no noticeable share of a long ramp; the schedule iterative, whose rounds say when,
  /// and the criterion threshold look at every step.
  std::optional<std::int64_t> update_every = {};
  std::optional<Regrowth> regrowth = {};  ///< None: masks only grow.
  /// At the end of this stage (one that quantizes), weights that quantization rounds to zero join the masks of the
  /// layers that the recipe prunes. None: they stay free.
  std::optional<Stage> fold_rounded_zeros = {};
  /// Under the pattern channels: whether pruned channels leave the network, and what is left of the optimizer's state
  /// goes on, at the end of the prune stage (see remove_channels). None: they do.
  std::optional<bool> remove_channels = {};
  /// Globs of layer or weight names ("features.*"). Layers that need no gradient are pruned only where one of these
  /// names them without a wildcard.
  std::vector<std::string> layers = {"*"};
  std::vector<LayerSparsity> by_layer = {};  ///< Exceptions, each layer by itself; the last that matches counts.
};

/// Whether the recipe takes pruned channels out of the network.
[[nodiscard]] inline bool removes_channels(const PruneRecipe& prune) {
  return std::holds_alternative<ChannelPattern>(prune.pattern) && prune.remove_channels.value_or(true);
}

/// Bits for what a glob chooses.
struct BitsFor {
  std::string names;  ///< Glob of layer or value names.
  int bits = 8;       ///< Weights: 2 to 8. Activations: 4 to 8.
};

/// A range known beforehand for the values that a glob chooses.
struct FixedRangeFor {
  std::string values;   ///< Glob of value names, as Compressor::placement_text prints them.
  FixedObserver range;  ///< Widened to contain 0.
};

/// How an activation's scale follows from what was observed.
enum class ActivationScale : std::uint8_t {
  observed,  ///< From the observed range, always.
  learned,   ///< From the range of the first batch on it learns with the weights; zero points stay.
};

/// What Compressor::calibrate does to weights and biases beside observing activations, in this order around it.
struct PostTrainingRecipe {
  bool equalize_layers = false;           ///< First: cross-layer equalization (equalize_layers).
  bool adaptive_rounding = false;         ///< After observing: AdaRound (round_adaptively).
  bool bias_correction = false;           ///< Last (correct_biases).
  AdaptiveRoundingOptions rounding = {};  ///< How adaptive rounding searches.
};

/// Fake quantization while training, codes afterwards; or codes after calibration alone.
struct QuantizeRecipe {
  int weight_bits = 8;                                                ///< 2 to 8.
  int activation_bits = 8;                                            ///< 4 to 8.
  WeightScale weight_scale = WeightScale::largest;                    ///< How weight scales are found.
  WeightGranularity weight_granularity = WeightGranularity::channel;  ///< What shares a weight scale.
  /// 0 to 23: weight scales go up to the next number of so many mantissa bits, in training already. With 4 the file
  /// holds a scale in about a byte; with 0 scales are powers of two. Less than 23 does not go with learned scales.
  int scale_mantissa_bits = 23;
  ActivationScale activation_scale = ActivationScale::observed;  ///< How activation scales are found.
  double step_learning_rate = 0.001;         ///< Of learned weight and activation scales (see descend), in [0, 1000].
  ObserverOptions observer = EmaObserver{};  ///< How activation ranges are found.
  std::vector<FixedRangeFor> fixed_ranges = {};    ///< Exceptions; the last that matches counts.
  std::vector<std::string> layers = {"*"};         ///< Globs of conv and linear layers that work on codes.
  std::vector<std::string> float_layers = {};      ///< Globs of layers that stay float.
  std::vector<BitsFor> weight_bits_by_layer = {};  ///< Exceptions; the last that matches counts.
  /// Bits of the values that a layer reads; the last that matches counts. Where several layers read values under one
  /// quantizer, it has the most bits that any of them asks for.
  std::vector<BitsFor> activation_bits_by_layer = {};
  std::vector<BitsFor> activation_bits_by_value = {};  ///< Exceptions to all of the above; the last counts.
  std::vector<std::string> float_values = {};          ///< Globs of values that get no quantizer (PlacementOverrides).
  std::vector<std::string> quantized_values = {};      ///< Globs of values that get one in any case.
  /// For Compressor::calibrate. A recipe that has it, or has no epochs at all, needs no stage that quantizes.
  std::optional<PostTrainingRecipe> post_training = {};
};

/// The strategy of Goldbarg et al. as their code computes it (dl_compression, 2022), in place of [prune] and
/// [quantize]. For each weight and bias tensor, before each batch of the stage goldbarg: numbers with |w| <= b become
/// 0, where b = alpha * (population standard deviation of the tensor, zeros included); the network computes with the
/// rest rounded to steps of (max|w| - b) / (2^(bits-1) - 1); gradients go straight through to the unrounded numbers,
/// which the optimizer moves. Batch norms and activations stay float. Three strategies: alpha alone prunes, bits alone
/// quantize, both do both.
///
/// The file holds weights as codes under float inputs where at most 8 bits hold them, else as floats; batch norms go
/// into scales. The first batch of an epoch runs on the weights that ended the epoch before, which the original code
/// would prune and round once more.
struct GoldbargRecipe {
  double alpha = 0;                                 ///< In [0, 10]; 0 prunes nothing.
  std::optional<int> bits = {};                     ///< 2 to 16; none: rounds nothing.
  ThresholdCodes codes = ThresholdCodes::verbatim;  ///< Whether codes may need more than `bits` bits, as they did.
  bool biases = true;                               ///< Whether biases are pruned and rounded too.
  bool restart_from_quantized = true;  ///< Whether the rounded numbers replace the unrounded ones after each epoch.
  /// Globs of layer or weight names. Layers that need no gradient are taken only where one names them without wildcard,
  /// and biases that need none only with such a layer.
  std::vector<std::string> layers = {"*"};
};

/// An exponential moving average of the weights, which conversion takes in place of the last ones (see WeightAverage).
/// It begins when the masks are fixed.
struct AverageRecipe {
  double decay = 0.999;  ///< In [0, 1).
};

/// Sparsity and weight bits of each layer are searched for, so that the whole network meets a budget at least predicted
/// loss: `resolve_auto` turns a recipe with this into one without. Searched are the layers of [prune] and [quantize]
/// that by_layer and weight_bits_by_layer make no exception of.
struct AutoRecipe {
  std::optional<std::int64_t> budget_bytes = {};  ///< The most that the file may take, 1 to 2^40. This one or
  std::optional<double> budget_us = {};  ///< the most microseconds of a sample, by the runtime's cost model; above 0.
  std::int64_t batch = 1;                ///< budget_us: samples that run together, 1 to 65536.
  /// What [prune] layers may get, each in [0, 1); none: 0, 0.5, 0.7, 0.8, 0.9, 0.95, under the pattern n:m 0, 1 - n/m.
  std::vector<double> sparsities = {};
  std::vector<int> weight_bits = {};  ///< What [quantize] layers may get, each 2 to 8; none: 8, 6, 4, 3.
};

/// What a Compressor does, and when. Built in C++ or read from TOML:
///
///     [epochs]
///     prune = 4
///     recover = 2
///     quantize = 2
///     freeze_batch_norm = 1
///     freeze_observers = 1
///
///     [prune]
///     sparsity = 0.9
///     criterion = "magnitude_l1"
///     pattern = "4x1"
///     distribution = "global"
///     layers = ["features.*", "classifier.*"]
///     by_layer = { "features.0" = 0.5 }
///
///     [quantize]
///     observer = "ema"
///
/// Without [prune] nothing is pruned, without [quantize] the network stays float. A recipe of [quantize] alone trains
/// nothing: Compressor::calibrate, then convert.
struct Recipe {
  StageLengths epochs = {};                     ///< How long each stage lasts.
  std::optional<PruneRecipe> prune = {};        ///< None: nothing is pruned.
  std::optional<QuantizeRecipe> quantize = {};  ///< None: the network stays float.
  std::optional<GoldbargRecipe> goldbarg = {};  ///< In place of [prune] and [quantize].
  std::optional<AverageRecipe> average = {};    ///< None: conversion takes the weights of the last step.
  std::optional<AutoRecipe> automatic = {};     ///< [auto]; a Compressor takes none: `resolve_auto` goes before.
  /// Where a recipe read from text says what, for later errors: "prune.sparsity" -> "recipe.toml:12".
  std::map<std::string, std::string> origins = {};

  /// Reads the recipe in the file at `path`. Throws as `parse` does, and Error(io) where the file cannot be read.
  [[nodiscard]] static Recipe load(const std::filesystem::path& path);

  /// Reads a recipe. Throws Error(recipe) naming `source`, the line and the key for text that is no TOML, an unknown
  /// key, a value of another type or outside its range, or stages that the recipe has no use for.
  [[nodiscard]] static Recipe parse(std::string_view text, const std::string& source = "recipe");
};

/// Throws Error(recipe) naming the first field outside its range. `Compressor` does this by itself.
void validate(const Recipe& recipe);

/// The stages' sum, in epochs.
[[nodiscard]] double total_epochs(const Recipe& recipe);

/// The epochs that a training loop runs: `total_epochs` rounded up, where a sum that misses a whole number only by the
/// rounding of its summands counts as that number. 0 for a recipe that only calibrates.
[[nodiscard]] std::int64_t whole_epochs(const Recipe& recipe);

/// The recipe as TOML that `Recipe::parse` reads back to the same recipe; equal recipes give equal text.
[[nodiscard]] std::string to_toml(const Recipe& recipe);

/// SHA-256 of `to_toml`, in hexadecimal.
[[nodiscard]] std::string recipe_hash(const Recipe& recipe);

}  // namespace podaq
