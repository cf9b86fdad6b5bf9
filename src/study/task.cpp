#include "podaq/study/task.h"

namespace podaq {

std::vector<Strategy> load_strategies(const std::filesystem::path& folder) {
  std::vector<Strategy> strategies;
  for (const char* name : {"dense", "prune", "quantize", "prune_quantize"})
    strategies.push_back({.name = name, .recipe = Recipe::load(folder / (std::string(name) + ".toml"))});
  return strategies;
}

}  // namespace podaq
