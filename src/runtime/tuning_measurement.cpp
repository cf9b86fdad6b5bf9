#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "podaq/core/cancellation.h"
#include "podaq/core/progress.h"
#include "runtime/node_timing.h"
#include "runtime/tuning.h"
#include "runtime/tuning_networks.h"

namespace podaq::runtime_detail {

namespace {

constexpr std::size_t measured_batches[] = {1, 64};

struct Subject {
  NodeRunner runner;
  NodeTimer timer{runner};
  std::size_t batch;

  Subject(Plan plan, std::size_t samples) : runner(std::move(plan), samples), batch(samples) {}
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;
};

// One round of all plans. The first run of each brings its weights back into the caches.
void run_round(std::vector<std::unique_ptr<Subject>>& subjects) {
  constexpr std::size_t timed_runs = 3;
  for (const auto& subject : subjects) {
    throw_if_cancelled();
    subject->runner.run_all();
    for (std::size_t i = 0; i < (subject->batch == 1 ? timed_runs : 1); ++i) subject->timer.run_round();
  }
}

}  // namespace

std::vector<NodeSample> measure_nodes(Isa isa, const TuningOptions& options) {
  using Clock = std::chrono::steady_clock;
  std::vector<std::unique_ptr<Subject>> subjects;
  for (const std::size_t batch : measured_batches)
    for (Plan& plan : tuning_plans(isa, batch)) {
      throw_if_cancelled();
      subjects.push_back(std::make_unique<Subject>(std::move(plan), batch));
    }
  const auto start = Clock::now();
  run_round(subjects);
  const double round_seconds = std::chrono::duration<double>(Clock::now() - start).count();
  constexpr double most_rounds = 2000.0;
  const auto rounds = static_cast<std::uint64_t>(std::clamp(options.seconds / round_seconds, 3.0, most_rounds));
  Progress progress("measuring", rounds, options.progress);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    run_round(subjects);
    progress.advance();
  }
  progress.finish();
  std::vector<NodeSample> samples;
  for (const auto& subject : subjects) {
    const std::vector<double> times = subject->timer.medians();
    const std::vector<PlanNode>& nodes = subject->runner.plan().nodes;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      std::vector<double> work = work_of(nodes[i], subject->batch);
      if (!work.empty())
        samples.push_back({.kernel = nodes[i].kernel->name,
                           .work = std::move(work),
                           .ns = times[i] / static_cast<double>(subject->batch)});
    }
  }
  return samples;
}

}  // namespace podaq::runtime_detail
