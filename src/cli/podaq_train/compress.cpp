#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "amc/amc_task.h"
#include "cli/podaq_train/verbs.h"
#include "cli/study_verb.h"
#include "image_classification/image_task.h"
#include "podaq/compress/recipe.h"
#include "podaq/core/error.h"
#include "podaq/study/comparison.h"

namespace podaq::cli {
namespace {

struct CompressOptions {
  std::string example;
  std::string recipe;
  std::filesystem::path output;
  ComparisonOptions comparison;
};

const std::map<std::string, std::function<Task()>>& examples() {
  static const std::map<std::string, std::function<Task()>> tasks = {
      {"amc-quick", [] { return amc::make_task({.preset = "quick"}); }},
      {"amc-full", [] { return amc::make_task({.preset = "full"}); }},
      {"amc-quick-separable",
       [] { return amc::make_task({.preset = "quick", .network = amc::NetworkKind::separable}); }},
      {"images-quick", [] { return images::make_task({}); }},
  };
  return tasks;
}

void compress(CompressOptions options) {
  Task task = examples().at(options.example)();
  const std::string strategy = std::filesystem::path(options.recipe).stem().string();
  task.strategies = {{.name = strategy, .recipe = Recipe::load(options.recipe), .file = options.output}};
  options.comparison.folder = options.output.has_parent_path() ? options.output.parent_path() : ".";
  const Comparison comparison = compare_strategies(task, options.comparison);
  std::fputs(format_table(comparison).c_str(), stdout);
}

}  // namespace

void add_compress(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("compress", "Train a shipped example with a recipe and write one .podaq file");
  auto options = std::make_shared<CompressOptions>();
  std::string names;
  for (const auto& [name, task] : examples()) names += names.empty() ? name : ", " + name;
  verb->add_option("example", options->example, "Which example: " + names)
      ->required()
      ->check(CLI::Validator(
          [names](const std::string& word) {
            return examples().contains(word) ? std::string() : "no example '" + word + "'; there are " + names;
          },
          "EXAMPLE"));
  verb->add_option("--recipe", options->recipe, "A recipe (TOML), like those in examples/*/recipes")->required();
  verb->add_option("--output", options->output, "The .podaq file to write")->required();
  add_training_options(*verb, options->comparison);
  verb->callback([options] { compress(*options); });
}

}  // namespace podaq::cli
