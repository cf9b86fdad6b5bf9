#pragma once

#include <torch/optim/optimizer.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "podaq/compress/recipe.h"
#include "podaq/graph/graph.h"
#include "podaq/quantize/calibrate.h"
#include "podaq/quantize/placement.h"
#include "podaq/training/graph_module.h"

namespace podaq {

class RandomSampler;

/// How a training loop feeds the compressor.
struct AttachOptions {
  std::int64_t steps_per_epoch = 0;  ///< 1 to 10^8: the batches that an epoch's loader gives.
  std::int64_t accumulation = 1;     ///< 1 to 10^8: the batches whose gradients one optimizer step takes.
  std::string teacher = {};          ///< Teacher::hash of who the loss listens to; checkpoints refuse another.
};

/// What conversion does besides converting.
struct ConvertOptions {
  /// Whether channels that cannot change an output go (remove_dead_channels); the outputs are the same either way.
  /// Without, every value of the network can be compared with the graph's of the same name.
  bool remove_dead_channels = true;
};

/// One conv or linear layer as it stands.
struct LayerReport {
  std::string layer;                  ///< The conv or linear layer.
  std::int64_t weights = 0;           ///< Weights in all.
  std::int64_t zeros = 0;             ///< Weights that are exactly 0.
  std::int64_t masked = 0;            ///< Weights that a mask holds at 0.
  std::int64_t rounded_to_zero = 0;   ///< Weights that are not 0, but have code 0 in each step that uses them.
  int weight_bits = 32;               ///< 32: float.
  std::int64_t channels_at_zero = 0;  ///< Output channels without a nonzero weight.
};

/// The network as it stands, layer by layer, and what observers met.
struct CompressionReport {
  std::vector<LayerReport> layers;  ///< In execution order.
  /// Values that held NaN or infinities while observed, with how many; they never enter a range.
  std::map<std::string, std::int64_t> not_finite_elements;
  /// Layers that bias correction passed over in the last `calibrate`, because they have no bias.
  std::vector<std::string> without_bias;
};

/// The report as a table for people.
[[nodiscard]] std::string to_text(const CompressionReport& report);

/// Runs a recipe on a network while it trains: prunes, keeps pruned weights at exactly 0, removes pruned channels,
/// places and freezes quantizers and batch norms, and turns the result into a graph that can be written and run.
///
/// Where channels are removed (PruneRecipe::remove_channels), parameters and buffers of the network become new, smaller
/// tensors in the step that ends the prune stage, in the optimizer's groups too; copies of them that a program keeps
/// (`model->parameters()`) are old then.
///
///     podaq::Compressor compressor(model, podaq::Recipe::load("recipe.toml"));
///     compressor.attach(optimizer, {.steps_per_epoch = batches});
///     for (; compressor.epoch() < compressor.epochs(); compressor.end_epoch())
///       for (auto& batch : *loader) { …; optimizer.step(); compressor.step(); }
///     podaq::save(compressor.convert(), "net.podaq");
class Compressor {
 public:
  /// Throws Error(recipe), naming the field and where it stands, for a recipe out of range, a glob that matches no
  /// layer or (for pruning) only layers that it leaves alone, a sparsity that no layer gets, or one that would empty a
  /// layer (with the nearest reachable one). Layers that need no gradient now are left alone by wildcards. Throws
  /// Error(invalid_argument) for a network that has hooks, as a compressor that quantized it leaves them.
  Compressor(std::shared_ptr<GraphModule> model, Recipe recipe);
  Compressor(Compressor&&) noexcept;
  Compressor& operator=(Compressor&&) noexcept;
  /// The network stays as it is, quantizers included: it goes on computing what was converted. GraphModule::clear_hooks
  /// makes a float network of it.
  ~Compressor();

  /// Takes up the training loop; must come before the first step. `optimizer` (and `sampler`), of which checkpoints
  /// keep the state, must outlive the compressor, the next attach or detach. Throws Error(recipe), naming the stage,
  /// where a stage that prunes, quantizes or freezes is too short for a single step, and Error(invalid_argument),
  /// naming the field, for options out of range and for an optimizer that cannot follow where the recipe removes
  /// channels.
  void attach(torch::optim::Optimizer& optimizer, const AttachOptions& options);
  /// The same with a sampler, whose place checkpoints keep.
  void attach(torch::optim::Optimizer& optimizer, RandomSampler& sampler, const AttachOptions& options);

  /// Lets go of optimizer and sampler, which may end now. The network can be converted and reported as before; step,
  /// end_epoch and checkpoints need an attach again.
  void detach();

  /// Quantizes without training, or ahead of it: lets observers see what the float network computes in eval mode on
  /// the batches and does what the recipe's post_training says (which writes to parameters; pruned weights stay 0).
  /// With [average], the average becomes the network's numbers first, and begins anew if training goes on.
  /// From here on the network is quantized and `convert` possible, and stages that quantize go on from there. Several
  /// calls add up. Throws Error(invalid_argument) for a recipe without [quantize], for no batches ("no data observed"),
  /// and as GraphModule::forward does.
  void calibrate(std::span<const CalibrationBatch> batches);
  /// The same for a network of one input.
  void calibrate(std::span<const torch::Tensor> batches);

  /// To be called after each optimizer.step() — once per optimizer step, not per accumulated batch: advances the
  /// schedule and zeroes pruned weights. Throws Error(invalid_argument) when an epoch gets more steps than
  /// ceil(steps_per_epoch / accumulation), as calls per accumulated batch would cause.
  void step();

  /// Ends an epoch; batches that the loader did not give count as done. Throws Error(invalid_argument) while the
  /// network holds its average.
  void end_epoch();

  /// Epochs ended so far, and epochs that the recipe takes (its stages' sum, rounded up).
  [[nodiscard]] std::int64_t epoch() const;
  /// Epochs that the recipe takes: the sum of its stages, rounded up.
  [[nodiscard]] std::int64_t epochs() const;

  /// The stage that the next step belongs to; after the last step, the last stage.
  [[nodiscard]] Stage stage() const;

  /// Whether masks and activation ranges stay as they are from now on, so that weights saved now convert the same
  /// later.
  [[nodiscard]] bool settled() const;

  /// The network as a graph ready to save or run: float for recipes without [quantize], else integer, computing what
  /// the network computes in eval mode. Its metadata hold "producer" and "recipe_sha256".
  ///
  /// Throws Error(invalid_argument) before the stages that prune are over or quantization has begun, by its stage or by
  /// calibrate (recipes with neither convert at any time), and naming the layer or value where a value was never
  /// observed, a layer's accumulator could overflow, numbers are not finite, or a layer trained without its quantizer.
  [[nodiscard]] Graph convert(const ConvertOptions& options = {}) const;

  /// Zeros, masks and bits of each layer now, and what observers met so far. Weights that round to zero are counted
  /// while the network quantizes and could be converted, else as none.
  [[nodiscard]] CompressionReport report() const;

  /// Whether the recipe has an [average].
  [[nodiscard]] bool averages() const;

  /// Exchanges the network's numbers for the average's, as for validation, and back when called again; without
  /// [average] or before it begins, nothing. `step`, `end_epoch`, `attach` and `save_checkpoint` throw
  /// Error(invalid_argument) while they are exchanged.
  void swap_average();

  /// Where quantizers stand, as a table for people; empty for recipes without [quantize].
  [[nodiscard]] std::string placement_text() const;

  /// Writes everything that a training run needs to go on as if it had not stopped; to be called after step(), not
  /// between it and optimizer.step(), when pruned weights may have moved: parameters, buffers, masks,
  /// removed channels, position, activation ranges, gradients, the optimizer with its groups, the sampler, and
  /// LibTorch's CPU random state. The file appears whole or not at all.
  void save_checkpoint(const std::filesystem::path& path) const;

  /// Takes up a checkpoint of the same network, recipe and kind of optimizer; call it after attach. Channels that were
  /// removed when it was written are removed here too; a compressor that has removed others takes none. Throws
  /// Error(format) for a file that is no checkpoint or a damaged one and Error(invalid_argument) for one of another
  /// network, recipe or run, each naming the file; nothing has changed then.
  void load_checkpoint(const std::filesystem::path& path);

 private:
  struct State;
  class AverageInPlace;
  std::unique_ptr<State> state_;
};

}  // namespace podaq
