#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "compress/recipe_words.h"
#include "podaq/compress/recipe.h"
#include "podaq/core/error.h"

namespace podaq::compress_detail {

/// Where a text says what: "prune.sparsity" -> "recipe.toml:12".
using Origins = std::map<std::string, std::string>;

/// One table of a recipe, or of a study. Reads its known keys, refuses the others, and notes where each stands.
class RecipeTable {
 public:
  RecipeTable(const toml::table& table, std::string path, const std::string& source, Origins& origins)
      : table_(table), path_(std::move(path)), source_(source), origins_(origins) {
    if (!path_.empty()) note(path_, table_);
  }

  void allow_only(std::initializer_list<std::string_view> keys) const {
    allow_only(std::span(keys.begin(), keys.size()));
  }

  void allow_only(std::span<const std::string_view> keys) const {
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
  void read(std::string_view key, Choice& choice) const { read(key, choice, words_for<Choice>); }

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

  void read(std::string_view key, std::vector<bool>& list) const {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    const toml::array* array = node->as_array();
    if (array == nullptr) fail(node->source(), path_to(key), "must be a list of true and false");
    list.clear();
    for (const toml::node& item : *array) {
      if (!item.is_boolean()) fail(item.source(), path_to(key), "must be a list of true and false");
      list.push_back(item.value<bool>().value());
    }
  }

  void read(std::string_view key, std::string& text) const {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    const auto words = node->value_exact<std::string>();
    if (!words) fail(node->source(), path_to(key), "must be text in quotes");
    text = *words;
  }

  // The tables of the list at `key`, none if there is no such key.
  [[nodiscard]] std::vector<RecipeTable> children(std::string_view key) const {
    std::vector<RecipeTable> tables;
    const toml::node* node = find(key);
    if (node == nullptr) return tables;
    const toml::array* array = node->as_array();
    if (array == nullptr) fail(node->source(), path_to(key), "must be a list of tables");
    for (const toml::node& item : *array) {
      const toml::table* table = item.as_table();
      if (table == nullptr) fail(item.source(), path_to(key), "must be a list of tables");
      tables.emplace_back(*table, fmt::format("{}[{}]", path_to(key), tables.size()), source_, origins_);
    }
    return tables;
  }

  // Where the table begins.
  [[nodiscard]] std::string origin() const { return fmt::format("{}:{}", source_, table_.source().begin.line); }

  // The table at `key`, if there is one.
  [[nodiscard]] std::optional<RecipeTable> child(std::string_view key) const {
    const toml::node* node = find(key);
    if (node == nullptr) return std::nullopt;
    const toml::table* table = node->as_table();
    if (table == nullptr) fail(node->source(), path_to(key), "must be a table");
    return RecipeTable(*table, path_to(key), source_, origins_);
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
    origins_[path] = fmt::format("{}:{}", source_, node.source().begin.line);
  }

  [[noreturn]] void fail(const toml::source_region& region, const std::string& path, const std::string& problem) const {
    throw Error(ErrorCode::recipe, fmt::format("{}:{}: {} {}", source_, region.begin.line, path, problem));
  }

  const toml::table& table_;
  std::string path_;
  const std::string& source_;
  Origins& origins_;
};

}  // namespace podaq::compress_detail
