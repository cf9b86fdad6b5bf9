#include "podaq/study/study_file.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "compress/recipe_table.h"
#include "podaq/core/error.h"
#include "podaq/core/file.h"
#include "study/study_rows.h"

namespace podaq {
namespace {

using compress_detail::RecipeTable;
using study_detail::Grid;

constexpr std::uint64_t largest_study_file = 1 << 20;

[[noreturn]] void refuse_field(const Study& study, const std::string& field, const std::string& problem) {
  const auto origin = study.origins.find(field);
  throw Error(ErrorCode::recipe,
              fmt::format("{}: {} {}", origin == study.origins.end() ? "study" : origin->second, field, problem));
}

toml::table parsed_study(std::string_view text, const std::string& source) {
  try {
    return toml::parse(text, source);
  } catch (const toml::parse_error& error) {
    throw Error(ErrorCode::recipe, fmt::format("{}:{}: {}", source, error.source().begin.line, error.description()));
  }
}

TaskWords words_in(const toml::node* node, const std::string& source) {
  TaskWords words;
  if (node == nullptr) return words;
  const auto place = [&](const toml::node& here) { return fmt::format("{}:{}", source, here.source().begin.line); };
  if (!node->is_table()) throw Error(ErrorCode::recipe, fmt::format("{}: task must be a table", place(*node)));
  for (const auto& [key, value] : *node->as_table()) {
    TaskWord word{.text = {}, .origin = place(value)};
    if (const auto text = value.value_exact<std::string>())
      word.text = *text;
    else if (const auto whole = value.value_exact<std::int64_t>())
      word.text = fmt::format("{}", *whole);
    else if (const auto number = value.value_exact<double>())
      word.text = fmt::format("{}", *number);
    else
      throw Error(ErrorCode::recipe, fmt::format("{}: task.{} must be text or a number", word.origin, key.str()));
    words.emplace(key.str(), std::move(word));
  }
  return words;
}

Task task_of(const std::function<Task(const TaskWords&)>& make_task, const TaskWords& words,
             const std::string& source) {
  try {
    return make_task(words);
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with(source)) throw;
    throw Error(error.code(), fmt::format("{}: [task]: {}", source, error.what()));
  }
}

void read_training(const RecipeTable& table, Study& study) {
  table.allow_only(
      {"shared_epochs", "batch_size", "learning_rate", "warm_up_epochs", "weight_decay", "label_smoothing"});
  TrainOptions& training = study.task.training;
  table.read("shared_epochs", study.task.shared_epochs);
  table.read("batch_size", training.batch_size);
  table.read("learning_rate", training.learning_rate);
  table.read("warm_up_epochs", training.warm_up_epochs);
  table.read("weight_decay", training.weight_decay);
  table.read("label_smoothing", training.label_smoothing);
  if (!(study.task.shared_epochs >= 0 && study.task.shared_epochs <= 1e6))
    refuse_field(study, "training.shared_epochs",
                 fmt::format("is {}, must lie in [0, 1000000]", study.task.shared_epochs));
}

Teaching read_distillation(const RecipeTable& table, Study& study) {
  table.allow_only({"teacher", "weight", "temperature"});
  Teaching teaching;
  table.read("teacher", teaching.teacher);
  table.read("weight", teaching.options.weight);
  table.read("temperature", teaching.options.temperature);
  if (teaching.teacher.empty()) refuse_field(study, "distillation", "needs a teacher: a row, or a .podaq file");
  if (!(teaching.options.weight >= 0 && teaching.options.weight <= 1))
    refuse_field(study, "distillation.weight", fmt::format("is {}, must lie in [0, 1]", teaching.options.weight));
  if (!(teaching.options.temperature > 0 && teaching.options.temperature <= 1000))
    refuse_field(study, "distillation.temperature",
                 fmt::format("is {}, must lie in (0, 1000]", teaching.options.temperature));
  return teaching;
}

const Teaching& require_teaching(const std::optional<Teaching>& teaching, const std::string& place) {
  if (!teaching) throw Error(ErrorCode::recipe, fmt::format("{}: distilled rows need a [distillation]", place));
  return *teaching;
}

Strategy read_row(const RecipeTable& table, const std::filesystem::path& folder,
                  const std::optional<Teaching>& teaching) {
  table.allow_only({"name", "recipe", "length", "distilled"});
  std::string recipe;
  double length = 1;
  bool distilled = false;
  table.read("recipe", recipe);
  table.read("length", length);
  table.read("distilled", distilled);
  if (recipe.empty()) throw Error(ErrorCode::recipe, fmt::format("{}: a row needs a recipe", table.origin()));
  if (!(length > 0 && length <= 1000))
    throw Error(ErrorCode::recipe, fmt::format("{}: length is {}, must lie in (0, 1000]", table.origin(), length));
  const std::filesystem::path path = folder / recipe;
  Strategy row{.name = path.stem().string(), .recipe = study_detail::lengthened(Recipe::load(path), length)};
  table.read("name", row.name);
  if (distilled) row.teaching = require_teaching(teaching, table.origin());
  return row;
}

// The strategies that the grid names.
std::vector<Strategy> read_grid_strategies(const RecipeTable& table, const Study& study) {
  std::vector<std::string> names;
  table.read("strategies", names);
  if (names.empty()) refuse_field(study, "grid", "needs strategies");
  std::vector<Strategy> strategies;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(study.task.strategies, name, &Strategy::name);
    if (found == study.task.strategies.end()) {
      std::string known;
      for (const Strategy& strategy : study.task.strategies) known += (known.empty() ? "" : ", ") + strategy.name;
      refuse_field(study, fmt::format("grid.strategies.\"{}\"", name), fmt::format("is none of {}", known));
    }
    strategies.push_back(*found);
  }
  return strategies;
}

Grid read_grid(const RecipeTable& table, const Study& study) {
  table.allow_only({"strategies", "sparsities", "weight_bits", "lengths", "distilled"});
  Grid grid{.strategies = read_grid_strategies(table, study)};
  table.read_numbers("sparsities", [&](const toml::node& item, const std::string& path) {
    grid.sparsities.push_back(table.number_at(item, path));
    if (!(grid.sparsities.back() >= 0 && grid.sparsities.back() < 1))
      refuse_field(study, path, fmt::format("holds {}, must lie in [0, 1)", grid.sparsities.back()));
  });
  table.read_numbers("weight_bits", [&](const toml::node& item, const std::string& path) {
    grid.weight_bits.push_back(table.integer_at(item, path));
    if (grid.weight_bits.back() < 2 || grid.weight_bits.back() > 8)
      refuse_field(study, path, fmt::format("holds {}, must lie in [2, 8]", grid.weight_bits.back()));
  });
  std::vector<double> lengths;
  table.read_numbers("lengths", [&](const toml::node& item, const std::string& path) {
    lengths.push_back(table.number_at(item, path));
    if (!(lengths.back() > 0 && lengths.back() <= 1000))
      refuse_field(study, path, fmt::format("holds {}, must lie in (0, 1000]", lengths.back()));
  });
  if (!lengths.empty()) grid.lengths = lengths;
  table.read("distilled", grid.distilled);
  if (grid.distilled.empty()) refuse_field(study, "grid.distilled", "must not be empty");
  return grid;
}

void read_rows(const RecipeTable& root, const std::filesystem::path& path, Study& study) {
  std::optional<Teaching> teaching;
  if (const auto distillation = root.child("distillation")) teaching = read_distillation(*distillation, study);
  std::vector<Strategy> rows;
  for (const RecipeTable& table : root.children("rows")) {
    rows.push_back(read_row(table, path.parent_path(), teaching));
    study.origins["rows." + rows.back().name] = table.origin();
  }
  if (const auto table = root.child("grid")) {
    const Grid grid = read_grid(*table, study);
    const bool distils = std::ranges::find(grid.distilled, true) != grid.distilled.end();
    for (Strategy& row :
         study_detail::rows_of(grid, distils ? require_teaching(teaching, table->origin()) : Teaching())) {
      validate(row.recipe);
      study.origins["rows." + row.name] = table->origin();
      rows.push_back(std::move(row));
    }
  }
  if (rows.empty())
    throw Error(ErrorCode::recipe, fmt::format("{}: a study needs [[rows]] or a [grid]", path.string()));
  study_detail::add_dense_rows(rows);
  study.task.strategies = std::move(rows);
}

}  // namespace

double number_in(const std::string& key, const TaskWord& word) {
  double number = 0;
  const char* end = word.text.data() + word.text.size();
  const auto [last, error] = std::from_chars(word.text.data(), end, number);
  if (error != std::errc() || last != end || !std::isfinite(number))
    throw Error(ErrorCode::recipe, fmt::format("{}: task.{} must be a number", word.origin, key));
  return number;
}

void refuse_key(const std::string& key, const TaskWord& word, const std::string& known) {
  throw Error(ErrorCode::recipe, fmt::format("{}: task.{} is unknown; known here: {}", word.origin, key, known));
}

Study load_study(const std::filesystem::path& path, const std::function<Task(const TaskWords&)>& make_task) {
  const std::vector<std::byte> bytes = read_file(path, largest_study_file);
  const std::string source = path.string();
  const toml::table root = parsed_study({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, source);
  Study study;
  const RecipeTable table(root, "", source, study.origins);
  table.allow_only({"seeds", "folder", "confusion", "task", "training", "distillation", "rows", "grid"});
  study.task = task_of(make_task, words_in(root.get("task"), source), source);
  study.folder = std::filesystem::path("results") / path.stem();
  std::string folder;
  table.read("folder", folder);
  if (!folder.empty()) study.folder = folder;
  std::vector<std::uint64_t> seeds;
  table.read_numbers("seeds", [&](const toml::node& item, const std::string& field) {
    const std::int64_t seed = table.whole_number_at(item, field);
    if (seed < 0) refuse_field(study, field, "must not hold negative numbers");
    seeds.push_back(static_cast<std::uint64_t>(seed));
  });
  if (!seeds.empty()) study.seeds = seeds;
  table.read_numbers("confusion", [&](const toml::node& item, const std::string& field) {
    study.confusion_groups.push_back(table.integer_at(item, field));
  });
  if (const auto training = table.child("training")) read_training(*training, study);
  read_rows(table, path, study);
  return study;
}

}  // namespace podaq
