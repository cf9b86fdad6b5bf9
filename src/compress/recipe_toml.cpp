#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "compress/prune_words.h"
#include "compress/recipe_words.h"
#include "podaq/compress/recipe.h"
#include "podaq/core/error.h"
#include "podaq/core/file.h"

namespace podaq {
namespace {

constexpr std::uint64_t largest_recipe = 1 << 20;

// One table of a recipe. Reads its known keys, refuses the others, and notes where each stands.
class Table {
 public:
  Table(const toml::table& table, std::string path, const std::string& source, Recipe& recipe)
      : table_(table), path_(std::move(path)), source_(source), recipe_(recipe) {
    if (!path_.empty()) note(path_, table_);
  }

  void allow_only(std::initializer_list<std::string_view> keys) const {
    for (const auto& [key, value] : table_) {
      if (std::find(keys.begin(), keys.end(), key.str()) != keys.end()) continue;
      fail(key.source(), path_to(key.str()), fmt::format("is unknown; known here: {}", fmt::join(keys, ", ")));
    }
  }

  void read(std::string_view key, double& number) const {
    if (const toml::node* node = find(key)) number = number_at(*node, path_to(key));
  }

  void read(std::string_view key, int& number) const {
    if (const toml::node* node = find(key)) number = integer_at(*node, path_to(key));
  }

  void read(std::string_view key, std::int64_t& number) const {
    if (const toml::node* node = find(key)) number = whole_number_at(*node, path_to(key));
  }

  void read(std::string_view key, bool& flag) const {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    if (!node->is_boolean()) fail(node->source(), path_to(key), "must be true or false");
    flag = node->value<bool>().value();
  }

  template <typename Value>
  void read(std::string_view key, std::optional<Value>& value) const {
    if (find(key) != nullptr) read(key, value.emplace());
  }

  // A word that `parse` turns into a value, or into none where it does not know the word.
  template <typename Value, typename Parse>
  void read_word(std::string_view key, Value& value, const Parse& parse, std::string_view known) const {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    const auto word = node->value_exact<std::string>();
    auto parsed = word ? parse(*word) : std::nullopt;
    if (!parsed) fail(node->source(), path_to(key), fmt::format("must be one of {}", known));
    value = *std::move(parsed);
  }

  // A key that only goes with something else.
  void refuse(std::string_view key, std::string_view problem) const {
    if (const toml::node* node = find(key)) fail(node->source(), path_to(key), std::string(problem));
  }

  void read(std::string_view key, std::vector<std::string>& list) const {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    const toml::array* array = node->as_array();
    if (array == nullptr) fail(node->source(), path_to(key), "must be a list of names");
    list.clear();
    for (const toml::node& item : *array) {
      const auto name = item.value_exact<std::string>();
      if (!name) fail(item.source(), path_to(key), "must be a list of names in quotes");
      note(fmt::format("{}.\"{}\"", path_to(key), *name), item);
      list.push_back(*name);
    }
  }

  void read(std::string_view key, std::vector<BitsFor>& exceptions) const {
    read_by_layer(key, [&](std::string glob, const toml::node& value, const std::string& path) {
      exceptions.push_back({.names = std::move(glob), .bits = integer_at(value, path)});
    });
  }

  // A choice that is one of the words for its type.
  template <typename Choice>
  requires std::is_enum_v<Choice>
  void read(std::string_view key, Choice& choice) const { read(key, choice, compress_detail::words_for<Choice>); }

  // The items of a list of numbers, which must not be empty.
  template <typename Visit>
  void read_numbers(std::string_view key, const Visit& visit) const {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    const toml::array* array = node->as_array();
    if (array == nullptr || array->empty()) fail(node->source(), path_to(key), "must be a list of numbers");
    for (const toml::node& item : *array) visit(item, path_to(key));
  }

  template <typename Choice>
  void read(std::string_view key, Choice& choice,
            std::initializer_list<std::pair<std::string_view, Choice>> choices) const {
    read(key, choice, std::span(choices.begin(), choices.size()));
  }

  template <typename Choice>
  void read(std::string_view key, Choice& choice,
            std::span<const std::pair<std::string_view, std::type_identity_t<Choice>>> choices) const {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    const auto word = node->value_exact<std::string>();
    for (const auto& [name, value] : choices) {
      if (word != name) continue;
      choice = value;
      return;
    }
    std::vector<std::string_view> names;
    for (const auto& [name, value] : choices) names.push_back(name);
    fail(node->source(), path_to(key), fmt::format("must be one of \"{}\"", fmt::join(names, "\", \"")));
  }

  // The entries of a table from globs to numbers, in the order of the text, since the last match counts.
  template <typename Visit>
  void read_by_layer(std::string_view key, const Visit& visit) const {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    const toml::table* entries = node->as_table();
    if (entries == nullptr) fail(node->source(), path_to(key), "must be a table from layer names to numbers");
    std::vector<std::pair<const toml::key*, const toml::node*>> sorted;
    for (const auto& [glob, value] : *entries) sorted.emplace_back(&glob, &value);
    const auto position = [](const toml::key* glob) {
      const toml::source_position begin = glob->source().begin;
      return std::pair(begin.line, begin.column);
    };
    std::sort(sorted.begin(), sorted.end(),
              [&](const auto& a, const auto& b) { return position(a.first) < position(b.first); });
    for (const auto& [glob, value] : sorted) {
      const std::string path = fmt::format("{}.\"{}\"", path_to(key), glob->str());
      note(path, *value);
      visit(std::string(glob->str()), *value, path);
    }
  }

  [[nodiscard]] FixedObserver range_at(const toml::node& node, const std::string& path) const {
    const toml::array* array = node.as_array();
    if (array == nullptr || array->size() != 2)
      fail(node.source(), path, "must be a list of two numbers, the smallest and the largest");
    return {.minimum = number_at(*array->get(0), path), .maximum = number_at(*array->get(1), path)};
  }

  // Refuses a key that goes with another choice than the one made.
  void forbid(std::string_view key, std::string_view reason) const {
    if (const toml::node* node = find(key)) fail(node->source(), path_to(key), std::string(reason));
  }

  // The table at `key`, if there is one.
  [[nodiscard]] std::optional<Table> child(std::string_view key) const {
    const toml::node* node = find(key);
    if (node == nullptr) return std::nullopt;
    const toml::table* table = node->as_table();
    if (table == nullptr) fail(node->source(), path_to(key), "must be a table");
    return Table(*table, path_to(key), source_, recipe_);
  }

  [[nodiscard]] double number_at(const toml::node& node, const std::string& path) const {
    if (!node.is_number()) fail(node.source(), path, "must be a number");
    return node.value<double>().value();
  }

  [[nodiscard]] int integer_at(const toml::node& node, const std::string& path) const {
    constexpr std::int64_t most = std::numeric_limits<int>::max();
    return static_cast<int>(std::clamp(whole_number_at(node, path), -most, most));  // `validate` names the range
  }

  [[nodiscard]] std::int64_t whole_number_at(const toml::node& node, const std::string& path) const {
    const auto number = node.value_exact<std::int64_t>();
    if (!number) fail(node.source(), path, "must be a whole number");
    return *number;
  }

 private:
  [[nodiscard]] std::string path_to(std::string_view key) const {
    return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
  }

  [[nodiscard]] const toml::node* find(std::string_view key) const {
    const toml::node* node = table_.get(key);
    if (node != nullptr) note(path_to(key), *node);
    return node;
  }

  void note(const std::string& path, const toml::node& node) const {
    recipe_.origins[path] = fmt::format("{}:{}", source_, node.source().begin.line);
  }

  [[noreturn]] void fail(const toml::source_region& region, const std::string& path, const std::string& problem) const {
    throw Error(ErrorCode::recipe, fmt::format("{}:{}: {} {}", source_, region.begin.line, path, problem));
  }

  const toml::table& table_;
  std::string path_;
  const std::string& source_;
  Recipe& recipe_;
};

StageLengths read_epochs(const Table& table) {
  table.allow_only({"dense", "prune", "recover", "quantize", "freeze_batch_norm", "freeze_observers"});
  StageLengths epochs;
  table.read("dense", epochs.dense);
  table.read("prune", epochs.prune);
  table.read("recover", epochs.recover);
  table.read("quantize", epochs.quantize);
  table.read("freeze_batch_norm", epochs.freeze_batch_norm);
  table.read("freeze_observers", epochs.freeze_observers);
  return epochs;
}

Regrowth read_regrowth(const Table& table) {
  table.allow_only({"every", "fraction"});
  Regrowth regrowth;
  table.read("every", regrowth.every);
  table.read("fraction", regrowth.fraction);
  return regrowth;
}

// The criterion and the numbers that belong to it.
void read_criterion(const Table& table, Criterion& criterion) {
  table.read_word("criterion", criterion, parse_criterion,
                  "\"magnitude_l1\", \"magnitude_l2\", \"taylor\", \"movement\", \"lamp\", \"geometric_median\", "
                  "\"batch_norm_scale\", \"random\", \"threshold\"; functions of one's own are given in C++");
  if (auto* random = std::get_if<RandomScore>(&criterion)) {
    std::int64_t seed = static_cast<std::int64_t>(random->seed);
    table.read("seed", seed);
    if (seed < 0) table.refuse("seed", "must not be negative");
    random->seed = static_cast<std::uint64_t>(seed);
  } else {
    table.refuse("seed", "is for the criterion random alone; leave it out");
  }
  if (auto* threshold = std::get_if<DeviationThreshold>(&criterion))
    table.read("alpha", threshold->alpha);
  else
    table.refuse("alpha", "is for the criterion threshold alone; leave it out");
}

PruneRecipe read_prune(const Table& table) {
  table.allow_only({"sparsity", "initial_sparsity", "criterion", "alpha", "seed", "pattern", "distribution", "schedule",
                    "rounds", "rewind_epoch", "update_every", "regrowth", "fold_rounded_zeros", "align",
                    "remove_channels", "layers", "by_layer"});
  PruneRecipe prune;
  table.read("sparsity", prune.sparsity);
  table.read("initial_sparsity", prune.initial_sparsity);
  read_criterion(table, prune.criterion);
  table.read_word(
      "pattern", prune.pattern, parse_pattern,
      "\"unstructured\", \"n:m\" as in \"2:4\" (n < m, up to 1024), \"rows x columns\" as in \"4x1\" (up to "
      "1024), \"channels\"");
  if (auto* channels = std::get_if<ChannelPattern>(&prune.pattern))
    table.read("align", channels->align);
  else
    table.refuse("align", "is for the pattern channels alone; leave it out");
  table.read("remove_channels", prune.remove_channels);
  table.read("distribution", prune.distribution, std::span(compress_detail::distribution_words));
  table.read("schedule", prune.schedule, std::span(compress_detail::schedule_words));
  table.read("rounds", prune.rounds);
  table.read("rewind_epoch", prune.rewind_epoch);
  table.read("update_every", prune.update_every);
  if (const auto regrowth = table.child("regrowth")) prune.regrowth = read_regrowth(*regrowth);
  table.read_word(
      "fold_rounded_zeros", prune.fold_rounded_zeros,
      [](std::string_view word) -> std::optional<Stage> {
        for (const Stage stage : {Stage::quantize, Stage::freeze_batch_norm, Stage::freeze_observers})
          if (name_of(stage) == word) return stage;
        return std::nullopt;
      },
      "\"quantize\", \"freeze_batch_norm\", \"freeze_observers\"");
  table.read("layers", prune.layers);
  table.read_by_layer("by_layer", [&](std::string glob, const toml::node& value, const std::string& path) {
    prune.by_layer.push_back({.layers = std::move(glob), .sparsity = table.number_at(value, path)});
  });
  return prune;
}

ObserverOptions read_observer(const Table& table) {
  ObserverOptions observer;
  table.read("observer", observer,
             {{"ema", EmaObserver{}},
              {"min_max", MinMaxObserver{}},
              {"percentile", PercentileObserver{}},
              {"least_squares", LeastSquaresObserver{}},
              {"least_divergence", LeastDivergenceObserver{}}});
  if (auto* ema = std::get_if<EmaObserver>(&observer))
    table.read("averaging_constant", ema->averaging_constant);
  else
    table.forbid("averaging_constant", "belongs to observer = \"ema\"");
  if (auto* percentile = std::get_if<PercentileObserver>(&observer))
    table.read("percentile", percentile->percentile);
  else
    table.forbid("percentile", "belongs to observer = \"percentile\"");
  return observer;
}

PostTrainingRecipe read_post_training(const Table& table) {
  table.allow_only({"equalize_layers", "adaptive_rounding", "bias_correction", "rounding_iterations",
                    "rounding_learning_rate", "rounding_regularization"});
  PostTrainingRecipe recipe;
  table.read("equalize_layers", recipe.equalize_layers);
  table.read("adaptive_rounding", recipe.adaptive_rounding);
  table.read("bias_correction", recipe.bias_correction);
  table.read("rounding_iterations", recipe.rounding.iterations);
  table.read("rounding_learning_rate", recipe.rounding.learning_rate);
  table.read("rounding_regularization", recipe.rounding.regularization);
  return recipe;
}

QuantizeRecipe read_quantize(const Table& table) {
  table.allow_only({"weight_bits", "activation_bits", "weight_scale", "weight_granularity", "activation_scale",
                    "step_learning_rate", "observer", "averaging_constant", "percentile", "fixed_ranges", "layers",
                    "float_layers", "weight_bits_by_layer", "activation_bits_by_layer", "activation_bits_by_value",
                    "float_values", "quantized_values", "post_training"});
  QuantizeRecipe quantize;
  table.read("weight_bits", quantize.weight_bits);
  table.read("activation_bits", quantize.activation_bits);
  table.read("weight_scale", quantize.weight_scale);
  table.read("weight_granularity", quantize.weight_granularity);
  table.read("activation_scale", quantize.activation_scale);
  table.read("step_learning_rate", quantize.step_learning_rate);
  quantize.observer = read_observer(table);
  table.read_by_layer("fixed_ranges", [&](std::string glob, const toml::node& value, const std::string& path) {
    quantize.fixed_ranges.push_back({.values = std::move(glob), .range = table.range_at(value, path)});
  });
  table.read("layers", quantize.layers);
  table.read("float_layers", quantize.float_layers);
  table.read("weight_bits_by_layer", quantize.weight_bits_by_layer);
  table.read("activation_bits_by_layer", quantize.activation_bits_by_layer);
  table.read("activation_bits_by_value", quantize.activation_bits_by_value);
  table.read("float_values", quantize.float_values);
  table.read("quantized_values", quantize.quantized_values);
  if (const auto post_training = table.child("post_training"))
    quantize.post_training = read_post_training(*post_training);
  return quantize;
}

AverageRecipe read_average(const Table& table) {
  table.allow_only({"decay"});
  AverageRecipe average;
  table.read("decay", average.decay);
  return average;
}

AutoRecipe read_auto(const Table& table) {
  table.allow_only({"budget_bytes", "budget_us", "batch", "sparsities", "weight_bits"});
  AutoRecipe search;
  table.read("budget_bytes", search.budget_bytes);
  table.read("budget_us", search.budget_us);
  table.read("batch", search.batch);
  table.read_numbers("sparsities", [&](const toml::node& item, const std::string& path) {
    search.sparsities.push_back(table.number_at(item, path));
  });
  table.read_numbers("weight_bits", [&](const toml::node& item, const std::string& path) {
    search.weight_bits.push_back(table.integer_at(item, path));
  });
  return search;
}

toml::table parsed(std::string_view text, const std::string& source) {
  try {
    return toml::parse(text, source);
  } catch (const toml::parse_error& error) {
    throw Error(ErrorCode::recipe, fmt::format("{}:{}: {}", source, error.source().begin.line, error.description()));
  }
}

}  // namespace

Recipe Recipe::parse(std::string_view text, const std::string& source) {
  const toml::table root = parsed(text, source);
  Recipe recipe;
  const Table table(root, "", source, recipe);
  table.allow_only({"epochs", "prune", "quantize", "average", "auto"});
  if (const auto epochs = table.child("epochs")) recipe.epochs = read_epochs(*epochs);
  if (const auto prune = table.child("prune")) recipe.prune = read_prune(*prune);
  if (const auto quantize = table.child("quantize")) recipe.quantize = read_quantize(*quantize);
  if (const auto average = table.child("average")) recipe.average = read_average(*average);
  if (const auto search = table.child("auto")) recipe.automatic = read_auto(*search);
  validate(recipe);
  return recipe;
}

Recipe Recipe::load(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = read_file(path, largest_recipe);
  return parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.string());
}

}  // namespace podaq
