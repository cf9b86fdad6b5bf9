#include "podaq/compress/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "compress/refuse_recipe.h"
#include "podaq/core/sha256.h"

namespace podaq {
namespace {

// Refuses a field that does not hold.
class Checker {
 public:
  explicit Checker(const Recipe& recipe) : recipe_(recipe) {}

  void require(bool holds, const std::string& field, const std::string& problem) const {
    if (!holds) compress_detail::refuse_recipe(recipe_, field, problem);
  }

  void require_range(double value, double lowest, double highest, const std::string& field) const {
    require(value >= lowest && value <= highest, field,
            fmt::format("is {}, must lie in [{}, {}]", value, lowest, highest));
  }

  void require_globs(std::span<const std::string> globs, const std::string& field) const {
    for (const std::string& glob : globs) require(!glob.empty(), field, "holds an empty name");
  }

 private:
  const Recipe& recipe_;
};

void check_stages(const Checker& checker, const Recipe& recipe) {
  const StageLengths& epochs = recipe.epochs;
  constexpr double longest = 1e6;
  checker.require_range(epochs.dense, 0, longest, "epochs.dense");
  checker.require_range(epochs.prune, 0, longest, "epochs.prune");
  checker.require_range(epochs.recover, 0, longest, "epochs.recover");
  checker.require_range(epochs.quantize, 0, longest, "epochs.quantize");
  checker.require_range(epochs.freeze_batch_norm, 0, longest, "epochs.freeze_batch_norm");
  checker.require_range(epochs.freeze_observers, 0, longest, "epochs.freeze_observers");

  checker.require(total_epochs(recipe) > 0, "epochs", "sum to 0: give at least one stage a length");
  checker.require(recipe.prune || epochs.prune == 0, "epochs.prune", "is set, but there is no [prune]");
  checker.require(recipe.prune || epochs.recover == 0, "epochs.recover", "is set, but there is no [prune]");
  checker.require(recipe.quantize || epochs.quantize == 0, "epochs.quantize", "is set, but there is no [quantize]");
  checker.require(recipe.quantize || epochs.freeze_observers == 0, "epochs.freeze_observers",
                  "is set, but there is no [quantize]");
  checker.require(!recipe.quantize || epochs.quantize + epochs.freeze_batch_norm > 0, "epochs.quantize",
                  "is 0, but [quantize] needs a stage in which observers see data: give quantize or "
                  "freeze_batch_norm a length");
}

// 1 is let through here: only with the network at hand can the nearest reachable sparsity be named.
void check_prune(const Checker& checker, const PruneRecipe& prune) {
  checker.require_range(prune.sparsity, 0, 1, "prune.sparsity");
  checker.require_range(prune.initial_sparsity, 0, prune.sparsity, "prune.initial_sparsity");
  checker.require_globs(prune.layers, "prune.layers");
  for (const LayerSparsity& exception : prune.by_layer) {
    checker.require(!exception.layers.empty(), "prune.by_layer", "holds an empty name");
    checker.require_range(exception.sparsity, 0, 1, fmt::format("prune.by_layer.\"{}\"", exception.layers));
  }
}

void check_quantize(const Checker& checker, const QuantizeRecipe& quantize) {
  checker.require_range(quantize.weight_bits, 2, 8, "quantize.weight_bits");
  checker.require_range(quantize.activation_bits, 4, 8, "quantize.activation_bits");
  const double constant = quantize.observer.averaging_constant;
  checker.require(constant > 0 && constant <= 1, "quantize.averaging_constant",
                  fmt::format("is {}, must lie in (0, 1]", constant));
  checker.require_globs(quantize.layers, "quantize.layers");
  checker.require_globs(quantize.float_layers, "quantize.float_layers");
  for (const LayerBits& exception : quantize.weight_bits_by_layer) {
    checker.require(!exception.layers.empty(), "quantize.weight_bits_by_layer", "holds an empty name");
    checker.require_range(exception.weight_bits, 2, 8,
                          fmt::format("quantize.weight_bits_by_layer.\"{}\"", exception.layers));
  }
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\')
      result += fmt::format("\\{}", letter);
    else if (code < 0x20 || code == 0x7F)
      result += fmt::format("\\u{:04X}", static_cast<unsigned>(code));
    else
      result += letter;
  }
  return result + '"';
}

std::string list_of(std::span<const std::string> items) {
  std::string result;
  for (const std::string& item : items) result += (result.empty() ? "" : ", ") + quoted(item);
  return '[' + result + ']';
}

std::string toml_of(const StageLengths& epochs) {
  return fmt::format(
      "[epochs]\ndense = {}\nprune = {}\nrecover = {}\nquantize = {}\nfreeze_batch_norm = {}\nfreeze_observers = {}\n",
      epochs.dense, epochs.prune, epochs.recover, epochs.quantize, epochs.freeze_batch_norm, epochs.freeze_observers);
}

std::string toml_of(const PruneRecipe& prune) {
  std::string text =
      fmt::format("\n[prune]\nsparsity = {}\ninitial_sparsity = {}\nschedule = \"{}\"\nscope = \"{}\"\nlayers = {}\n",
                  prune.sparsity, prune.initial_sparsity, prune.schedule == ScheduleKind::cubic ? "cubic" : "one_shot",
                  prune.scope == PruneScope::layer ? "layer" : "global", list_of(prune.layers));
  if (!prune.by_layer.empty()) text += "\n[prune.by_layer]\n";
  for (const LayerSparsity& exception : prune.by_layer)
    text += fmt::format("{} = {}\n", quoted(exception.layers), exception.sparsity);
  return text;
}

std::string toml_of(const QuantizeRecipe& quantize) {
  std::string text = fmt::format(
      "\n[quantize]\nweight_bits = {}\nactivation_bits = {}\nobserver = \"{}\"\naveraging_constant = {}\n"
      "layers = {}\nfloat_layers = {}\n",
      quantize.weight_bits, quantize.activation_bits, quantize.observer.kind == ObserverKind::ema ? "ema" : "min_max",
      quantize.observer.averaging_constant, list_of(quantize.layers), list_of(quantize.float_layers));
  if (!quantize.weight_bits_by_layer.empty()) text += "\n[quantize.weight_bits_by_layer]\n";
  for (const LayerBits& exception : quantize.weight_bits_by_layer)
    text += fmt::format("{} = {}\n", quoted(exception.layers), exception.weight_bits);
  return text;
}

}  // namespace

double total_epochs(const Recipe& recipe) {
  const StageLengths& epochs = recipe.epochs;
  return epochs.dense + epochs.prune + epochs.recover + epochs.quantize + epochs.freeze_batch_norm +
         epochs.freeze_observers;
}

std::int64_t whole_epochs(const Recipe& recipe) {
  constexpr double rounding = 1e-9;  // 0.1 * 3 + 0.7 is one epoch, not two
  const double total = total_epochs(recipe);
  return std::max(static_cast<std::int64_t>(std::ceil(total - rounding)), static_cast<std::int64_t>(total > 0));
}

void validate(const Recipe& recipe) {
  const Checker checker(recipe);
  if (recipe.prune) check_prune(checker, *recipe.prune);
  if (recipe.quantize) check_quantize(checker, *recipe.quantize);
  check_stages(checker, recipe);
}

std::string to_toml(const Recipe& recipe) {
  std::string text = toml_of(recipe.epochs);
  if (recipe.prune) text += toml_of(*recipe.prune);
  if (recipe.quantize) text += toml_of(*recipe.quantize);
  return text;
}

std::string recipe_hash(const Recipe& recipe) {
  const std::string text = to_toml(recipe);
  const Sha256Digest digest = sha256(std::as_bytes(std::span(text)));
  return to_hexadecimal(digest);
}

}  // namespace podaq
