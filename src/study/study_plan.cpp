#include "study/study_plan.h"

#include <torch/version.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>

#include "podaq/core/error.h"
#include "podaq/core/sha256.h"
#include "podaq/core/text.h"
#include "podaq/core/version.h"
#include "study/file_hash.h"

namespace podaq::study_detail {
namespace {

[[noreturn]] void refuse(const Study& study, const std::string& field, const std::string& problem) {
  const auto origin = study.origins.find(field);
  throw Error(ErrorCode::invalid_argument,
              concat(origin == study.origins.end() ? study.task.name : origin->second, ": ", problem));
}

bool can_name_a_file(const std::string& name) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !name.empty() && name.front() != '.' && name.find_first_not_of(letters) == std::string::npos;
}

void require_usable(const Study& study) {
  if (study.task.strategies.empty()) refuse(study, "rows", "there is no strategy to train");
  if (study.seeds.empty()) refuse(study, "seeds", "there is no seed; give at least one");
  if (std::set(study.seeds.begin(), study.seeds.end()).size() != study.seeds.size())
    refuse(study, "seeds", "a seed stands twice in seeds");
  std::set<std::string> names;
  for (const Strategy& strategy : study.task.strategies) {
    const std::string field = "rows." + strategy.name;
    if (!can_name_a_file(strategy.name))
      refuse(study, field,
             concat("strategy '", strategy.name, "' cannot name a file; use letters, digits, '.', '_' and '-'"));
    if (!names.insert(strategy.name).second)
      refuse(study, field, concat("two strategies are called '", strategy.name, "'"));
    if (whole_epochs(strategy.recipe) == 0 && study.task.shared_epochs == 0)
      refuse(study, field, concat("strategy '", strategy.name, "' trains nothing, and there are no shared epochs"));
  }
}

const Strategy* find_strategy(const Study& study, const std::string& name) {
  const auto found = std::ranges::find(study.task.strategies, name, &Strategy::name);
  return found == study.task.strategies.end() ? nullptr : &*found;
}

// Teachers first. A teacher may have a teacher, but nobody teaches himself.
std::vector<const Strategy*> in_order_of_training(const Study& study) {
  std::vector<const Strategy*> order;
  std::vector<const Strategy*> waiting;
  for (const Strategy& strategy : study.task.strategies) waiting.push_back(&strategy);
  while (!waiting.empty()) {
    const auto is_blocked = [&](const Strategy* strategy) {
      if (!strategy->teaching) return false;
      const Strategy* teacher = find_strategy(study, strategy->teaching->teacher);
      return teacher != nullptr && std::ranges::find(waiting, teacher) != waiting.end();
    };
    const auto free = std::ranges::find_if_not(waiting, is_blocked);
    if (free == waiting.end())
      refuse(study, "rows." + waiting.front()->name,
             concat("strategy '", waiting.front()->name, "' would teach itself through its teachers"));
    order.push_back(*free);
    waiting.erase(free);
  }
  return order;
}

std::string hash_of(const std::string& text) {
  return to_hexadecimal(sha256(std::as_bytes(std::span(text))));
}

KeptAs kept_as(const Study& study, const std::string& name, std::uint64_t seed, const std::string& inputs) {
  return {.inputs = inputs,
          .stem = study.folder / "points" / concat(name, "-seed", seed, "-", hash_of(inputs).substr(0, 16))};
}

// What everything depends on.
std::string common_inputs(const Study& study, std::uint64_t seed) {
  return concat("podaq ", version, ", LibTorch ", TORCH_VERSION, "\ntask ", study.task.name, "\n", study.task.identity,
                "\nhigh group ", study.task.high_group, "\nseed ", seed, "\n");
}

std::optional<std::size_t> shared_training(const Study& study, std::uint64_t seed, double all_epochs, StudyPlan& plan) {
  if (study.task.shared_epochs == 0) return std::nullopt;
  TrainOptions training = study.task.training;
  training.epochs = all_epochs;
  training.last_epoch = study.task.shared_epochs;
  training.keep_best = false;
  training.seed = seed;
  const std::string inputs = concat(common_inputs(study, seed), "shared epochs: ", to_text(training), "\n");
  KeptAs kept = kept_as(study, "shared", seed, inputs);
  for (std::size_t i = 0; i < plan.shared.size(); ++i)
    if (plan.shared[i].kept.stem == kept.stem) return i;
  validate(training);
  plan.shared.push_back({.seed = seed, .training = training, .kept = std::move(kept)});
  return plan.shared.size() - 1;
}

std::string teaching_inputs(const Study& study, const StudyPlan& plan, const Point& point) {
  if (!point.strategy->teaching) return "";
  const Teaching& teaching = *point.strategy->teaching;
  std::string teacher;
  if (point.teacher) {
    teacher = hash_of(plan.points[*point.teacher].kept.inputs);
  } else {
    try {
      teacher = hash_of_file(teaching.teacher);
    } catch (const Error& error) {
      refuse(study, "rows." + point.strategy->name,
             concat("teacher '", teaching.teacher, "' is neither a strategy of this study nor a file: ", error.what()));
    }
  }
  return concat("teacher ", teacher, " weight ", teaching.options.weight, " temperature ", teaching.options.temperature,
                "\n");
}

Point plan_point(const Study& study, const Strategy& strategy, std::uint64_t seed, StudyPlan& plan) {
  Point point{.strategy = &strategy, .seed = seed, .own_epochs = whole_epochs(strategy.recipe)};
  point.training = study.task.training;
  point.training.epochs = study.task.shared_epochs + static_cast<double>(point.own_epochs);
  point.training.first_epoch = study.task.shared_epochs;
  point.training.seed = seed + 1;  // another order than the shared epochs'
  point.shared = shared_training(study, seed, point.training.epochs, plan);
  if (strategy.teaching)
    for (std::size_t i = 0; i < plan.points.size(); ++i)
      if (plan.points[i].seed == seed && plan.points[i].strategy->name == strategy.teaching->teacher) point.teacher = i;
  if (point.own_epochs > 0) validate(point.training);
  const std::string inputs = concat(
      common_inputs(study, seed), point.shared ? plan.shared[*point.shared].kept.inputs : "untrained\n",
      "own epochs: ", to_text(point.training), "\n", teaching_inputs(study, plan, point), to_toml(strategy.recipe));
  point.kept = kept_as(study, strategy.name, seed, inputs);
  return point;
}

}  // namespace

std::int64_t epochs_of(const SharedTraining& shared) {
  return static_cast<std::int64_t>(std::ceil(shared.training.last_epoch));
}

StudyPlan make_plan(const Study& study) {
  require_usable(study);
  const std::vector<const Strategy*> order = in_order_of_training(study);
  StudyPlan plan;
  for (const std::uint64_t seed : study.seeds)
    for (const Strategy* strategy : order) plan.points.push_back(plan_point(study, *strategy, seed, plan));
  return plan;
}

}  // namespace podaq::study_detail
