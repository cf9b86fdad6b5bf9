#include "podaq/study/trainer.h"

#include <torch/nn/functional/loss.h>
#include <torch/optim/adamw.h>

#include <chrono>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "podaq/core/cancellation.h"
#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "podaq/prune/rewinding.h"
#include "podaq/training/random_sampler.h"
#include "study/train_state.h"

namespace podaq {
namespace {

using study_detail::keep;
using study_detail::resume;
using study_detail::TrainState;

[[noreturn]] void refuse(const std::string& text) {
  throw Error(ErrorCode::invalid_argument, "train: " + text);
}

TrainOptions with_defaults(TrainOptions options) {
  if (options.last_epoch == 0) options.last_epoch = options.epochs;
  return options;
}

double learning_rate_at(double epoch, const TrainOptions& options) {
  if (epoch < options.warm_up_epochs) return options.learning_rate * epoch / options.warm_up_epochs;
  const double progress = (epoch - options.warm_up_epochs) / (options.epochs - options.warm_up_epochs);
  return options.learning_rate * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
}

/// Weight decay acts on weights alone: decayed biases and batch norms cost accuracy and gain nothing.
torch::optim::AdamW make_optimizer(GraphModule& model, const TrainOptions& options) {
  std::vector<torch::Tensor> weights;
  std::vector<torch::Tensor> others;
  for (const torch::Tensor& parameter : model.parameters())
    if (parameter.requires_grad()) (parameter.dim() >= 2 ? weights : others).push_back(parameter);
  using Group = torch::optim::OptimizerParamGroup;
  using Options = torch::optim::AdamWOptions;
  std::vector<Group> groups;
  groups.emplace_back(weights, std::make_unique<Options>(Options().weight_decay(options.weight_decay)));
  groups.emplace_back(others, std::make_unique<Options>(Options().weight_decay(0.0)));
  return torch::optim::AdamW(groups, Options(options.learning_rate));
}

void set_learning_rate(torch::optim::Optimizer& optimizer, double rate) {
  for (auto& group : optimizer.param_groups()) group.options().set_lr(rate);
}

double accuracy_on(GraphModule& model, const Dataset& dataset) {
  const torch::Tensor labels = view_as_tensors(dataset).labels;
  return predict(model, dataset).eq(labels).to(torch::kDouble).mean().item<double>();
}

// The network holds its average while this lives, if it has one.
class AverageForValidation {
 public:
  explicit AverageForValidation(Compressor* compressor) : compressor_(compressor) {
    if (compressor_ != nullptr) compressor_->swap_average();
  }
  ~AverageForValidation() {
    if (compressor_ != nullptr) compressor_->swap_average();
  }
  AverageForValidation(const AverageForValidation&) = delete;
  AverageForValidation& operator=(const AverageForValidation&) = delete;

 private:
  Compressor* compressor_;
};

// Of the network that would be converted: with [average], of the average.
double validate(GraphModule& model, Compressor* compressor, const Dataset& validation) {
  const AverageForValidation average(compressor);
  return accuracy_on(model, validation);
}

// The compressor holds the optimizer while this lives.
class Attachment {
 public:
  Attachment(Compressor* compressor, torch::optim::Optimizer& optimizer, RandomSampler& sampler,
             const AttachOptions& options)
      : compressor_(compressor) {
    if (compressor_ != nullptr) compressor_->attach(optimizer, sampler, options);
  }
  ~Attachment() {
    if (compressor_ != nullptr) compressor_->detach();
  }
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

 private:
  Compressor* compressor_;
};

std::string teacher_of(const TrainSupport& support) {
  return support.soft_targets ? support.soft_targets->teacher : std::string();
}

torch::Tensor loss_of(GraphModule& model, const TensorData& data, const torch::Tensor& indices,
                      const TrainOptions& options, const TrainSupport& support) {
  const torch::Tensor logits = model.forward(data.samples.index_select(0, indices));
  const torch::Tensor label_loss = torch::nn::functional::cross_entropy(
      logits, data.labels.index_select(0, indices),
      torch::nn::functional::CrossEntropyFuncOptions().label_smoothing(options.label_smoothing));
  if (!support.soft_targets) return label_loss;
  const SoftTargets& teacher = *support.soft_targets;
  return distillation_loss(logits, teacher.logits.index_select(0, indices), label_loss, teacher.options);
}

}  // namespace

void validate(const TrainOptions& given) {
  const TrainOptions options = with_defaults(given);
  if (!(options.epochs > 0)) refuse(concat("epochs is ", options.epochs, ", must be greater than 0"));
  if (!(options.first_epoch >= 0 && options.first_epoch < options.last_epoch && options.last_epoch <= options.epochs))
    refuse(concat("first_epoch ", options.first_epoch, " and last_epoch ", options.last_epoch,
                  " must satisfy 0 <= first_epoch < last_epoch <= epochs (", options.epochs, ")"));
  if (options.batch_size < 2 || options.batch_size > 65536)
    refuse(concat("batch_size is ", options.batch_size, ", must lie in [2, 65536]"));
  if (!(options.learning_rate > 0)) refuse("learning_rate must be greater than 0");
  if (!(options.warm_up_epochs >= 0 && options.warm_up_epochs < options.epochs))
    refuse(concat("warm_up_epochs is ", options.warm_up_epochs, ", must lie in [0, epochs)"));
  if (!(options.weight_decay >= 0)) refuse("weight_decay must not be negative");
  if (!(options.label_smoothing >= 0 && options.label_smoothing < 1)) refuse("label_smoothing must lie in [0, 1)");
}

std::string to_text(const TrainOptions& options) {
  return concat("epochs=", options.epochs, " first_epoch=", options.first_epoch, " last_epoch=", options.last_epoch,
                " batch_size=", options.batch_size, " learning_rate=", options.learning_rate,
                " warm_up_epochs=", options.warm_up_epochs, " weight_decay=", options.weight_decay,
                " label_smoothing=", options.label_smoothing, " seed=", options.seed, " keep_best=", options.keep_best);
}

TensorData view_as_tensors(const Dataset& dataset) {
  std::vector<std::int64_t> shape = dataset.sample_shape;
  shape.insert(shape.begin(), dataset.size());
  // from_blob wants a mutable pointer; nothing here writes through it.
  auto* samples = const_cast<float*>(dataset.samples.data());
  auto* labels = const_cast<std::int32_t*>(dataset.labels.data());
  return {.samples = torch::from_blob(samples, shape, torch::kFloat),
          .labels = torch::from_blob(labels, {dataset.size()}, torch::kInt).to(torch::kLong)};
}

std::int64_t steps_per_epoch(const Dataset& train, const TrainOptions& options) {
  return train.size() / options.batch_size;
}

TrainResult train(GraphModule& model, Compressor* compressor, const Dataset& train_set, const Dataset& validation,
                  const TrainOptions& given, const TrainSupport& support) {
  validate(given);
  const TrainOptions options = with_defaults(given);
  const std::int64_t steps = steps_per_epoch(train_set, options);
  if (steps == 0) refuse(concat("a batch of ", options.batch_size, " exceeds the ", train_set.size(), " samples"));
  const auto epochs = static_cast<std::int64_t>(std::ceil(options.last_epoch - options.first_epoch));
  if (compressor != nullptr && compressor->epochs() != epochs)
    refuse(concat("the recipe lasts ", compressor->epochs(), " epochs, this training ", epochs));
  if (compressor == nullptr && !support.checkpoint.empty()) refuse("a checkpoint needs a compressor");

  const TensorData data = view_as_tensors(train_set);
  if (support.soft_targets && support.soft_targets->logits.size(0) != train_set.size())
    refuse(concat("the teacher speaks of ", support.soft_targets->logits.size(0), " samples, there are ",
                  train_set.size()));
  torch::optim::AdamW optimizer = make_optimizer(model, options);
  RandomSampler sampler(static_cast<std::size_t>(train_set.size()), options.seed);
  const Attachment attachment(compressor, optimizer, sampler,
                              {.steps_per_epoch = steps, .teacher = teacher_of(support)});

  TrainState state;
  if (!support.checkpoint.empty()) resume(support.checkpoint, options, model, *compressor, state);
  const bool averages = compressor != nullptr && compressor->averages();
  for (std::int64_t epoch = std::ssize(state.result.validation_accuracy); epoch < epochs; ++epoch) {
    const auto start = std::chrono::steady_clock::now();
    model.train();
    sampler.reset();
    for (std::int64_t step = 0; step < steps; ++step) {
      const double position = options.first_epoch + static_cast<double>(epoch) + static_cast<double>(step) / steps;
      set_learning_rate(optimizer, learning_rate_at(position, options));
      const auto batch = sampler.next(static_cast<std::size_t>(options.batch_size));
      const torch::Tensor indices =
          torch::tensor(std::vector<std::int64_t>(batch->begin(), batch->end()), torch::kLong);
      optimizer.zero_grad();
      loss_of(model, data, indices, options, support).backward();
      optimizer.step();
      if (compressor != nullptr) compressor->step();
      if (support.after_step) support.after_step();
    }
    const bool settled = compressor == nullptr || compressor->settled();
    if (compressor != nullptr) compressor->end_epoch();
    const double accuracy = validate(model, compressor, validation);
    state.result.validation_accuracy.push_back(accuracy);
    const bool last = epoch + 1 == epochs;
    const bool may_choose = options.keep_best && settled && !averages;
    if ((may_choose && accuracy > state.best_accuracy) || (last && state.best.empty())) {
      state.best_accuracy = accuracy;
      state.result.chosen_epoch = static_cast<std::size_t>(epoch);
      state.best = take_snapshot(model);
    }
    state.result.steps += steps;
    state.result.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!support.checkpoint.empty()) keep(support.checkpoint, options, model, *compressor, state);
  }
  rewind(model, state.best);
  if (averages) compressor->swap_average();
  return state.result;
}

torch::Tensor predict(GraphModule& model, const Dataset& dataset, std::int64_t batch_size) {
  const torch::NoGradGuard no_grad;
  const bool was_training = model.is_training();
  model.eval();
  const torch::Tensor samples = view_as_tensors(dataset).samples;
  std::vector<torch::Tensor> classes;
  for (std::int64_t first = 0; first < dataset.size(); first += batch_size) {
    throw_if_cancelled();
    const std::int64_t count = std::min(batch_size, dataset.size() - first);
    classes.push_back(model.forward(samples.narrow(0, first, count)).argmax(1));
  }
  model.train(was_training);
  return classes.empty() ? torch::empty({0}, torch::kLong) : torch::cat(classes);
}

}  // namespace podaq
