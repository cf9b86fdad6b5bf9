#include "study/train_point.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "podaq/compress/compressor.h"
#include "podaq/format/file.h"
#include "podaq/training/random_sampler.h"
#include "study/file_hash.h"
#include "study/host.h"
#include "study/measure_file.h"
#include "study/network_file.h"

namespace podaq::study_detail {
namespace {

/// Each network has its own: the default one would be shared by the trainings that run side by side.
at::Generator make_generator(std::uint64_t seed) {
  return at::make_generator<at::CPUGeneratorImpl>(seed);
}

bool has_stage_that_quantizes(const StageLengths& epochs) {
  return epochs.quantize > 0 || epochs.freeze_batch_norm > 0 || epochs.freeze_observers > 0;
}

/// A recipe that quantizes without a stage for it is calibrated on training samples: enough for any observer, few
/// enough for adaptive rounding's searches.
void calibrate_on(Compressor& compressor, const Dataset& train, std::uint64_t seed) {
  constexpr std::size_t batch = 64;
  constexpr std::size_t most_batches = 16;
  const torch::Tensor samples = view_as_tensors(train).samples;
  RandomSampler sampler(static_cast<std::size_t>(train.size()), seed);
  sampler.reset();
  std::vector<torch::Tensor> batches;
  while (batches.size() < most_batches) {
    const auto indices = sampler.next(batch);
    if (!indices) break;
    batches.push_back(samples.index_select(
        0, torch::tensor(std::vector<std::int64_t>(indices->begin(), indices->end()), torch::kLong)));
  }
  compressor.calibrate(batches);
}

SoftTargets ask_teacher(const std::filesystem::path& file, const DistillationOptions& options, const Dataset& train) {
  const std::vector<float> logits = logits_of(Model::load(file), train);
  const auto classes = static_cast<std::int64_t>(train.class_names.size());
  return {
      .logits = torch::tensor(logits).view({train.size(), classes}), .teacher = hash_of_file(file), .options = options};
}

Graph with_metadata(Graph graph, const Task& task, const Strategy& strategy, const Dataset& test) {
  graph.metadata["task"] = task.name;
  graph.metadata["strategy"] = strategy.name;
  std::string& classes = graph.metadata["classes"];
  for (const std::string& name : test.class_names) classes += classes.empty() ? name : "," + name;
  return graph;
}

}  // namespace

void train_shared(const SharedTraining& shared, const Task& task, const TaskData& data, const TaskNetwork& network,
                  const StepCallback& after_step) {
  GraphModule& model = *network.captured;
  model.set_generator(make_generator(shared.training.seed));
  const std::filesystem::path checkpoint = shared.kept.with(".checkpoint");
  {
    Compressor compressor(network.captured, {.epochs = {.dense = task.shared_epochs}});
    train(model, &compressor, data.train, data.validation, shared.training,
          {.after_step = after_step, .checkpoint = checkpoint});
  }
  save_network(model, shared.kept.with(".network"));
  std::filesystem::remove_all(checkpoint);
}

PointResult train_point(const Point& point, const PointSurroundings& surroundings) {
  const Strategy& strategy = *point.strategy;
  const TaskData& data = surroundings.data;
  GraphModule& whole = *surroundings.network.captured;
  if (!surroundings.shared_network.empty()) load_network(whole, surroundings.shared_network);
  const auto model = std::dynamic_pointer_cast<GraphModule>(whole.clone());
  model->set_generator(make_generator(point.training.seed));
  Compressor compressor(model, strategy.recipe);
  const std::filesystem::path checkpoint = point.kept.with(".checkpoint");
  TrainSupport support{.after_step = surroundings.after_step, .checkpoint = checkpoint};
  if (strategy.teaching)
    support.soft_targets = ask_teacher(surroundings.teacher, strategy.teaching->options, data.train);
  TrainResult trained;
  if (point.own_epochs > 0) trained = train(*model, &compressor, data.train, data.validation, point.training, support);
  if (strategy.recipe.quantize && !has_stage_that_quantizes(strategy.recipe.epochs))
    calibrate_on(compressor, data.train, point.training.seed);

  PointResult result{.strategy = strategy.name, .seed = point.seed, .recipe = to_toml(strategy.recipe)};
  if (strategy.teaching) result.teacher = strategy.teaching->teacher;
  result.shared_epochs = surroundings.task.shared_epochs;
  result.own_epochs = static_cast<double>(point.own_epochs);
  result.steps = trained.steps;
  result.seconds = trained.seconds;
  result.validation = trained.validation_accuracy;
  result.host = host_description(1);
  result.class_names = data.test.class_names;
  result.file = point.kept.with(".podaq");
  save(with_metadata(compressor.convert(), surroundings.task, strategy, data.test), result.file);
  result.file_sha256 = hash_of_file(result.file);
  result.validation_accuracy = trained.validation_accuracy.empty()
                                   ? evaluate(Model::load(result.file), data.validation).all.accuracy()
                                   : trained.validation_accuracy.at(trained.chosen_epoch);
  result.measured = measure_file(result.file, surroundings.task, *model, whole, data.test);
  return result;
}

}  // namespace podaq::study_detail
