#include "podaq/study/comparison.h"

#include <utility>
#include <vector>

#include "podaq/core/atomic_file.h"
#include "podaq/core/error.h"
#include "podaq/core/file.h"
#include "podaq/core/text.h"
#include "podaq/format/file.h"

namespace podaq {
namespace {

/// The epochs that every strategy trains for must be equal: a row trained for longer proves nothing.
void require_equal_epochs(const Task& task) {
  if (task.strategies.empty()) throw Error(ErrorCode::invalid_argument, concat(task.name, ": no strategy to compare"));
  const double epochs = total_epochs(task.strategies.front().recipe);
  for (const Strategy& strategy : task.strategies)
    if (total_epochs(strategy.recipe) != epochs)
      throw Error(ErrorCode::recipe,
                  concat(task.name, ": strategy ", strategy.name, " lasts ", total_epochs(strategy.recipe), " epochs, ",
                         task.strategies.front().name, " ", epochs, "; give all the same"));
}

std::filesystem::path file_of(const Strategy& strategy, const Task& task, const ComparisonOptions& options) {
  return strategy.file.empty() ? options.folder / concat(task.name, "-", strategy.name, ".podaq") : strategy.file;
}

}  // namespace

Comparison compare_strategies(const Task& task, const ComparisonOptions& options) {
  require_equal_epochs(task);
  std::filesystem::create_directories(options.folder);
  for (const Strategy& strategy : task.strategies) require_writable(file_of(strategy, task, options));

  const Study study{.task = task,
                    .seeds = {options.seed},
                    .folder = file_of(task.strategies.front(), task, options).string() + ".training"};
  StudyResult result = run_study(study, {.threads = options.threads});
  for (std::size_t i = 0; i < result.points.size(); ++i) {
    std::filesystem::path file = file_of(task.strategies[i], task, options);
    write_file_atomically(file, read_file(result.points[i].file, ReadOptions{}.max_decoded_bytes));
    result.points[i].file = std::move(file);
  }
  std::filesystem::remove_all(study.folder);
  const FileMeasurement& first = result.points.front().measured;
  return {.task = task.name,
          .host = result.host,
          .seed = options.seed,
          .seconds = result.seconds,
          .test_frames = first.all.total,
          .parameters = first.parameters,
          .high_group = task.high_group,
          .rows = std::move(result.points)};
}

}  // namespace podaq
