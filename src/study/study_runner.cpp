#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "podaq/compress/compressor.h"
#include "podaq/core/atomic_file.h"
#include "podaq/core/cancellation.h"
#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "podaq/format/file.h"
#include "podaq/study/study.h"
#include "study/folder_lock.h"
#include "study/host.h"
#include "study/job_queue.h"
#include "study/measure_file.h"
#include "study/point_json.h"
#include "study/study_data.h"
#include "study/study_plan.h"
#include "study/study_progress.h"
#include "study/train_point.h"

namespace podaq {
namespace {

using study_detail::Job;
using study_detail::Point;
using study_detail::SharedTraining;
using study_detail::StudyPlan;

/// A study under way.
class StudyRun {
 public:
  StudyRun(const Study& study, int threads)
      : study_(study),
        threads_(threads),
        plan_(study_detail::make_plan(study)),
        results_(plan_.points.size()),
        data_(study.task, threads) {}

  /// Reads what the folder holds. Figures are taken anew: a task may have others now.
  void read_results() {
    for (std::size_t i = 0; i < plan_.points.size(); ++i) {
      results_[i] = study_detail::read_point(plan_.points[i].kept.with(".json"), plan_.points[i].kept.inputs);
      if (!results_[i]) continue;
      const Graph graph = study_.task.figures.empty() ? Graph() : load(results_[i]->file);
      results_[i]->measured.figures = study_detail::figures_of(graph, study_.task);
    }
  }

  /// What fails only on the network fails now, not after the shared epochs.
  void require_fitting_recipes() {
    const TaskNetwork network = study_.task.make_network(study_.seeds.front());
    for (const Strategy& strategy : study_.task.strategies)
      Compressor(std::dynamic_pointer_cast<GraphModule>(network.captured->clone()), strategy.recipe);
  }

  void train_missing() {
    const std::vector<Job> jobs = missing_jobs();
    if (jobs.empty()) return;
    const auto steps = steps_per_epoch(data_.take(first_seed_)->train, study_.task.training);
    StudyProgress progress(concat(study_.task.name, ": training ", jobs.size(), " networks"),
                           static_cast<std::uint64_t>(steps * epochs_ahead_));
    progress_ = &progress;
    study_detail::run_jobs(jobs, threads_);
    progress.finish();
  }

  /// Latencies are taken when no training runs, a seed's files in turn.
  void time_untimed(bool time_again) {
    for (const std::uint64_t seed : study_.seeds) {
      std::vector<std::size_t> points;
      for (std::size_t i = 0; i < results_.size(); ++i)
        if (plan_.points[i].seed == seed && (time_again || results_[i]->podaq.median_us == 0)) points.push_back(i);
      if (!points.empty()) time_points(points, seed);
    }
  }

  [[nodiscard]] StudyResult result() const {
    StudyResult result{.task = study_.task.name,
                       .description = study_.task.description,
                       .host = host_description(threads_),
                       .seeds = study_.seeds,
                       .class_names = results_.front()->class_names,
                       .high_group = study_.task.high_group,
                       .confusion_groups = study_.confusion_groups};
    for (const Strategy& strategy : study_.task.strategies) {
      result.strategies.push_back(strategy.name);
      for (std::size_t i = 0; i < plan_.points.size(); ++i)
        if (plan_.points[i].strategy == &strategy) result.points.push_back(*results_[i]);
    }
    return result;
  }

 private:
  // Networks are made here, before any training runs: LibTorch initializes them from a random state that all threads
  // share, and a training that goes on from its checkpoint sets that state.
  std::vector<Job> missing_jobs() {
    std::vector<Job> jobs;
    std::vector<std::optional<std::size_t>> job_of_shared(plan_.shared.size());
    std::vector<std::optional<std::size_t>> job_of_point(plan_.points.size());
    const auto add = [&](std::uint64_t seed, std::int64_t epochs, std::int64_t trained, Job job) {
      if (jobs.empty()) first_seed_ = seed;
      data_.announce(seed);
      epochs_ahead_ += epochs - trained;
      jobs.push_back(std::move(job));
      return jobs.size() - 1;
    };
    for (std::size_t i = 0; i < plan_.points.size(); ++i) {
      if (results_[i]) continue;
      const Point& point = plan_.points[i];
      Job job{.run = [this, i, network = study_.task.make_network(point.seed)] { train_point(i, network); }};
      if (point.shared && !std::filesystem::exists(plan_.shared[*point.shared].kept.with(".network"))) {
        std::optional<std::size_t>& shared = job_of_shared[*point.shared];
        if (!shared)
          shared = add(point.seed, study_detail::epochs_of(plan_.shared[*point.shared]),
                       trained_epochs(plan_.shared[*point.shared].kept.with(".checkpoint")),
                       {.run = [this, which = *point.shared, network = study_.task.make_network(point.seed)] {
                         train_shared(which, network);
                       }});
        job.after.push_back(*shared);
      }
      if (point.teacher && job_of_point[*point.teacher]) job.after.push_back(*job_of_point[*point.teacher]);
      job_of_point[i] =
          add(point.seed, point.own_epochs, trained_epochs(point.kept.with(".checkpoint")), std::move(job));
    }
    return jobs;
  }

  template <typename Work>
  void with_data(std::uint64_t seed, const Work& work) {
    torch::set_num_threads(1);  // of this thread
    struct GiveBack {
      StudyData& data;
      std::uint64_t seed;
      ~GiveBack() { data.give_back(seed); }
    };
    const GiveBack give_back{data_, seed};
    const std::shared_ptr<const TaskData> data = data_.take(seed);
    work(*data);
  }

  void train_shared(std::size_t index, const TaskNetwork& network) {
    const SharedTraining& shared = plan_.shared[index];
    with_data(shared.seed, [&](const TaskData& data) {
      study_detail::train_shared(shared, study_.task, data, network, [this] { progress_->step(); });
    });
  }

  void train_point(std::size_t index, const TaskNetwork& network) {
    const Point& point = plan_.points[index];
    with_data(point.seed, [&](const TaskData& data) {
      study_detail::PointSurroundings surroundings{.task = study_.task, .data = data, .network = network};
      surroundings.after_step = [this] { progress_->step(); };
      if (point.shared) surroundings.shared_network = plan_.shared[*point.shared].kept.with(".network");
      if (point.teacher)
        surroundings.teacher = plan_.points[*point.teacher].kept.with(".podaq");
      else if (point.strategy->teaching)
        surroundings.teacher = point.strategy->teaching->teacher;
      results_[index] = study_detail::train_point(point, surroundings);
      study_detail::write_point(*results_[index], point.kept.inputs, point.kept.with(".json"));
      std::filesystem::remove_all(point.kept.with(".checkpoint"));
    });
  }

  void time_points(const std::vector<std::size_t>& points, std::uint64_t seed) {
    std::vector<std::filesystem::path> files;
    for (const std::size_t i : points) files.push_back(results_[i]->file);
    const TaskNetwork network = study_.task.make_network(seed);
    const std::vector<Latency> latencies = study_detail::time_files(files, network);
    for (std::size_t k = 0; k < points.size(); ++k) {
      PointResult& result = *results_[points[k]];
      result.libtorch = latencies[0];
      result.podaq = latencies[k + 1];
      const Point& point = plan_.points[points[k]];
      study_detail::write_point(result, point.kept.inputs, point.kept.with(".json"));
    }
  }

  using StudyData = study_detail::StudyData;

  const Study& study_;
  int threads_;
  StudyPlan plan_;
  std::vector<std::optional<PointResult>> results_;  // of plan_.points
  StudyData data_;
  std::uint64_t first_seed_ = 0;   // of the first job
  std::int64_t epochs_ahead_ = 0;  // of all jobs
  StudyProgress* progress_ = nullptr;
};

}  // namespace

int effective_threads(const StudyOptions& options) {
  if (options.threads < 0 || options.threads > 1024)
    throw Error(ErrorCode::invalid_argument, concat("threads is ", options.threads, ", must lie in [0, 1024]"));
  return options.threads > 0 ? options.threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

std::vector<PlannedPoint> plan_study(const Study& study) {
  const StudyPlan plan = study_detail::make_plan(study);
  std::vector<PlannedPoint> planned;
  const auto add = [&](const std::string& name, std::uint64_t seed, std::int64_t epochs, bool done,
                       const study_detail::KeptAs& kept) {
    planned.push_back({.strategy = name,
                       .seed = seed,
                       .epochs = epochs,
                       .trained_epochs = done ? epochs : trained_epochs(kept.with(".checkpoint")),
                       .done = done});
  };
  for (const SharedTraining& shared : plan.shared)
    add("shared", shared.seed, study_detail::epochs_of(shared), std::filesystem::exists(shared.kept.with(".network")),
        shared.kept);
  for (const Point& point : plan.points) {
    const auto result = study_detail::read_point(point.kept.with(".json"), point.kept.inputs);
    add(point.strategy->name, point.seed, point.own_epochs, result.has_value(), point.kept);
    if (result) planned.back().seconds = result->seconds;
  }
  return planned;
}

StudyResult run_study(const Study& study, const StudyOptions& options) {
  const int threads = effective_threads(options);
  const CancellationScope cancellation;
  const auto start = std::chrono::steady_clock::now();
  torch::set_num_threads(1);
  StudyRun run(study, threads);
  run.require_fitting_recipes();
  std::filesystem::create_directories(study.folder / "points");
  require_writable(study.folder / "points" / "result");
  const study_detail::FolderLock lock(study.folder);
  run.read_results();
  run.train_missing();
  run.time_untimed(options.time_again);
  StudyResult result = run.result();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace podaq
