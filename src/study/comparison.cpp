#include "podaq/study/comparison.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "podaq/compress/compressor.h"
#include "podaq/core/atomic_file.h"
#include "podaq/core/cancellation.h"
#include "podaq/core/error.h"
#include "podaq/core/file.h"
#include "podaq/core/text.h"
#include "podaq/format/file.h"
#include "podaq/prune/masks.h"
#include "podaq/runtime/runner.h"
#include "study/host.h"
#include "study/study_progress.h"

namespace podaq {
namespace {

/// A strategy's network on its way through the comparison.
struct Candidate {
  const Strategy* strategy = nullptr;
  std::shared_ptr<GraphModule> model;
  ComparisonRow row;
};

std::int64_t parameter_count(const GraphModule& model) {
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : model.parameters())
    if (parameter.requires_grad()) count += parameter.numel();
  return count;
}

std::shared_ptr<GraphModule> copy_of(const GraphModule& model) {
  return std::dynamic_pointer_cast<GraphModule>(model.clone());
}

// How much of the network's conv and linear weights the file no longer holds: as zeros, or with channels.
double weight_sparsity(const Graph& network, const Graph& file) {
  std::int64_t total = 0;
  for (const WeightedLayer& layer : weighted_layers(network))
    total += element_count(tensor_at(network, layer.weight).shape);
  std::int64_t nonzeros = 0;
  for (const WeightedLayer& layer : weighted_layers(file)) nonzeros += count_nonzeros(tensor_at(file, layer.weight));
  return total == 0 ? 0.0 : 1.0 - static_cast<double>(nonzeros) / static_cast<double>(total);
}

std::vector<std::int32_t> to_vector(const torch::Tensor& classes) {
  const torch::Tensor narrow = classes.to(torch::kInt).contiguous();
  return {narrow.data_ptr<std::int32_t>(), narrow.data_ptr<std::int32_t>() + narrow.numel()};
}

/// The epochs that every strategy trains for. They must be equal: a row trained for longer proves nothing.
double own_epochs(const Task& task) {
  if (task.strategies.empty()) throw Error(ErrorCode::invalid_argument, concat(task.name, ": no strategy to compare"));
  const double epochs = total_epochs(task.strategies.front().recipe);
  for (const Strategy& strategy : task.strategies)
    if (total_epochs(strategy.recipe) != epochs)
      throw Error(ErrorCode::recipe,
                  concat(task.name, ": strategy ", strategy.name, " lasts ", total_epochs(strategy.recipe), " epochs, ",
                         task.strategies.front().name, " ", epochs, "; give all the same"));
  return static_cast<double>(whole_epochs(task.strategies.front().recipe));
}

/// Each network has its own: the default one would be shared by the trainings that run side by side.
at::Generator make_generator(std::uint64_t seed) {
  return at::make_generator<at::CPUGeneratorImpl>(seed);
}

std::filesystem::path file_of(const Strategy& strategy, const Task& task, const ComparisonOptions& options) {
  return strategy.file.empty() ? options.folder / concat(task.name, "-", strategy.name, ".podaq") : strategy.file;
}

void train_candidate(Candidate& candidate, const Task& task, const TaskData& data, const TrainOptions& training,
                     const ComparisonOptions& options, StudyProgress& progress) {
  candidate.model->set_generator(make_generator(training.seed));
  Compressor compressor(candidate.model, candidate.strategy->recipe);
  const TrainResult result =
      train(*candidate.model, &compressor, data.train, data.validation, training, [&] { progress.step(); });
  Graph graph = compressor.convert();
  graph.metadata["task"] = task.name;
  graph.metadata["strategy"] = candidate.strategy->name;
  std::string& classes = graph.metadata["classes"];
  for (const std::string& name : data.test.class_names) classes += classes.empty() ? name : "," + name;

  ComparisonRow& row = candidate.row;
  row.strategy = candidate.strategy->name;
  row.validation_accuracy = result.validation_accuracy.at(result.chosen_epoch);
  row.file = file_of(*candidate.strategy, task, options);
  save(graph, row.file);
}

/// Trains all candidates, one thread each. Batches are small: two one-thread trainings finish before one with two
/// threads does, and a lone thread meets no spinning barrier.
void train_side_by_side(std::vector<Candidate>& candidates, const Task& task, const TaskData& data,
                        const TrainOptions& training, const ComparisonOptions& options, int threads,
                        StudyProgress& progress) {
  std::atomic<std::size_t> next{0};
  std::vector<std::exception_ptr> failures(candidates.size());
  torch::set_num_threads(1);
  {
    std::vector<std::jthread> workers;
    for (int worker = 0; worker < threads; ++worker)
      workers.emplace_back([&] {
        torch::set_num_threads(1);
        for (std::size_t i = next++; i < candidates.size(); i = next++) try {
            train_candidate(candidates[i], task, data, training, options, progress);
          } catch (...) {
            failures[i] = std::current_exception();
          }
      });
  }
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

void evaluate_candidate(Candidate& candidate, const Task& task, const TaskData& data, std::int64_t parameters,
                        int threads) {
  ComparisonRow& row = candidate.row;
  const std::vector<std::byte> bytes = read_file(row.file, ReadOptions{}.max_decoded_bytes);
  const Graph graph = decode(bytes);
  const Evaluation evaluation = evaluate(Model(graph), data.test, threads);
  row.all = evaluation.all;
  if (!evaluation.by_group.empty()) row.high_groups = score_from_group(evaluation, task.high_group);
  row.sparsity = weight_sparsity(candidate.model->graph(), graph);
  row.file_bytes = bytes.size();
  row.ratio = 4.0 * static_cast<double>(parameters) / static_cast<double>(row.file_bytes);
  row.agreement = agreement(evaluation.predictions, to_vector(predict(*candidate.model, data.test)));
}

/// The user's module and every file, batch 1, one thread, in interleaved rounds.
void time_candidates(std::vector<Candidate>& candidates, const TaskNetwork& network, const Dataset& test) {
  torch::set_num_threads(1);
  network.module->eval();
  const torch::NoGradGuard no_grad;
  const torch::Tensor frame = view_as_tensors(test).samples.narrow(0, 0, 1);
  std::vector<Contestant> contestants = {{"libtorch", [&] { network.forward(frame); }}};
  std::vector<std::unique_ptr<Runner>> runners;
  std::vector<float> logits(test.class_names.size());
  for (const Candidate& candidate : candidates) {
    runners.push_back(std::make_unique<Runner>(Model::load(candidate.row.file)));
    contestants.push_back(
        {candidate.row.strategy, [&runner = *runners.back(), &test, &logits] { runner.run(test.sample(0), logits); }});
  }
  const std::vector<Latency> latencies = measure_latency(contestants);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    candidates[i].row.libtorch = latencies[0];
    candidates[i].row.podaq = latencies[i + 1];
  }
}

}  // namespace

Comparison compare_strategies(const Task& task, const ComparisonOptions& options) {
  if (options.threads < 0 || options.threads > 1024)
    throw Error(ErrorCode::invalid_argument, concat("threads is ", options.threads, ", must lie in [0, 1024]"));
  const int threads =
      options.threads > 0 ? options.threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const CancellationScope cancellation;
  const auto start = std::chrono::steady_clock::now();
  std::filesystem::create_directories(options.folder);
  for (const Strategy& strategy : task.strategies) require_writable(file_of(strategy, task, options));

  const TaskNetwork network = task.make_network(options.seed);
  const double own = own_epochs(task);
  // A recipe that does not fit the network is refused now, not after the shared epochs.
  for (const Strategy& strategy : task.strategies) Compressor(copy_of(*network.captured), strategy.recipe);
  const TaskData data = task.load_data(options.seed, threads);
  Comparison result{.task = task.name,
                    .host = host_description(threads),
                    .seed = options.seed,
                    .test_frames = data.test.size(),
                    .parameters = parameter_count(*network.captured),
                    .high_group = task.high_group,
                    .rows = {}};

  const auto steps = static_cast<double>(steps_per_epoch(data.train, task.training));
  StudyProgress progress(
      concat(task.name, ": training ", task.strategies.size(), " strategies"),
      static_cast<std::uint64_t>(steps * (task.shared_epochs + own * static_cast<double>(task.strategies.size()))));

  TrainOptions training = task.training;
  training.epochs = task.shared_epochs + own;
  if (task.shared_epochs > 0) {
    torch::set_num_threads(threads);
    TrainOptions shared = training;
    shared.last_epoch = task.shared_epochs;
    shared.keep_best = false;
    shared.seed = options.seed;
    network.captured->set_generator(make_generator(shared.seed));
    train(*network.captured, nullptr, data.train, data.validation, shared, [&] { progress.step(); });
  }
  std::vector<Candidate> candidates;
  for (const Strategy& strategy : task.strategies)
    candidates.push_back({.strategy = &strategy, .model = copy_of(*network.captured), .row = {}});
  training.first_epoch = task.shared_epochs;
  training.seed = options.seed + 1;
  train_side_by_side(candidates, task, data, training, options, threads, progress);
  progress.finish();

  for (Candidate& candidate : candidates) evaluate_candidate(candidate, task, data, result.parameters, threads);
  time_candidates(candidates, network, data.test);
  for (Candidate& candidate : candidates) result.rows.push_back(std::move(candidate.row));
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace podaq
