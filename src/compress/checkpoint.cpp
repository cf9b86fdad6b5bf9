#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <torch/serialize/archive.h>
#include <torch/serialize/tensor.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "compress/checkpoint_tensors.h"
#include "compress/compressor_state.h"
#include "compress/goldbarg_checkpoint.h"
#include "compress/optimizer_checkpoint.h"
#include "compress/pruner_checkpoint.h"
#include "compress/quantization_plan.h"
#include "compress/quantizer_tensors.h"
#include "podaq/core/error.h"
#include "podaq/training/random_sampler.h"

// A checkpoint is an archive of LibTorch's, because its optimizers and samplers write and read their state that way.

namespace podaq {
namespace {

using namespace compress_detail;
using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

constexpr std::string_view format_name = "podaq checkpoint";
constexpr std::int64_t checkpoint_version = 6;

NamedTensors own_tensors(const GraphModule& model) {
  NamedTensors tensors;
  for (const auto& item : model.named_parameters()) tensors.emplace_back(item.key(), item.value().detach());
  for (const auto& item : model.named_buffers()) tensors.emplace_back(item.key(), item.value());
  return tensors;
}

NamedTensors gradients(const GraphModule& model) {
  NamedTensors tensors;
  for (const auto& item : model.named_parameters())
    if (item.value().grad().defined()) tensors.emplace_back(item.key(), item.value().grad());
  return tensors;
}

torch::Tensor random_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

bool read_flag(InputArchive& archive, const std::string& key) {
  c10::IValue value;
  archive.read(key, value);
  return value.toBool();
}

// LibTorch's readers throw c10::Error, and the standard library's exceptions where text holds no number.
template <typename Read>
auto read_or_refuse(const std::filesystem::path& path, const Read& read) {
  try {
    return read();
  } catch (const c10::Error& error) {
    throw Error(ErrorCode::format,
                fmt::format("checkpoint '{}' is damaged: {}", path.string(), error.what_without_backtrace()));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorCode::format, fmt::format("checkpoint '{}' is damaged: {}", path.string(), error.what()));
  }
}

InputArchive open_archive(const std::filesystem::path& path) {
  std::optional<InputArchive> archive = read_archive(path);
  try {
    if (archive && read_string(*archive, "format") == format_name) return *std::move(archive);
  } catch (const std::exception&) {
  }
  throw Error(ErrorCode::format,
              fmt::format("checkpoint '{}': this is no checkpoint of podaq, or a damaged one", path.string()));
}

void require_fitting_gradients(const std::filesystem::path& path, const GraphModule& model, const NamedTensors& saved) {
  const auto parameters = model.named_parameters();
  for (const auto& [name, gradient] : saved) {
    const torch::Tensor* parameter = parameters.find(name);
    if (parameter == nullptr || !fits(gradient, *parameter))
      refuse_checkpoint(path, fmt::format("the gradient of '{}' fits no parameter of the network", name));
  }
}

QuantizerState quantizer_state_in(const std::filesystem::path& path, const NetworkQuantizer& quantizer,
                                  const NamedTensors& saved) {
  try {
    QuantizerState state = state_in(saved, quantizer.state());
    quantizer.require_fitting(state);
    return state;
  } catch (const Error& error) {
    refuse_checkpoint(path, error.what());
  }
}

// A sampler reads its state in place; one that stands in for it meets every refusal first.
void require_fitting_sampler(const std::filesystem::path& path, InputArchive& saved, const RandomSampler& sampler) {
  OutputArchive written;
  sampler.save(written);
  std::stringstream stream;
  written.save_to(stream);
  InputArchive own;
  own.load_from(stream);
  RandomSampler stand_in(static_cast<std::size_t>(read_integer(own, "size")));
  try {
    stand_in.load(saved);
  } catch (const Error& error) {
    refuse_checkpoint(path, error.what());
  }
}

torch::Tensor read_random_state(const std::filesystem::path& path, InputArchive& archive) {
  torch::Tensor state;
  archive.read("random", state, /*is_buffer=*/true);
  try {
    at::Generator stand_in = at::detail::createCPUGenerator();
    stand_in.set_state(state);
  } catch (const c10::Error& error) {
    refuse_checkpoint(path, fmt::format("the random state is none of LibTorch's: {}", error.what_without_backtrace()));
  }
  return state;
}

void copy_into(const GraphModule& model, const NamedTensors& saved) {
  const NamedTensors own = own_tensors(model);
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < own.size(); ++i) torch::Tensor(own[i].second).copy_(saved[i].second);
}

void set_gradients(const GraphModule& model, const NamedTensors& saved) {
  for (const auto& item : model.named_parameters()) torch::Tensor(item.value()).mutable_grad() = torch::Tensor();
  for (const auto& [name, gradient] : saved) model.tensor(name).mutable_grad() = gradient.clone();
}

torch::Tensor flags_tensor(const std::vector<bool>& flags) {
  torch::Tensor tensor = torch::empty({std::ssize(flags)}, torch::kBool);
  std::ranges::copy(flags, tensor.mutable_data_ptr<bool>());
  return tensor;
}

std::optional<std::vector<bool>> read_removed_channels(const std::filesystem::path& path, InputArchive& archive) {
  if (!read_flag(archive, "has_removed_channels")) return std::nullopt;
  torch::Tensor tensor;
  archive.read("removed_channels", tensor, /*is_buffer=*/true);
  if (tensor.scalar_type() != torch::kBool || tensor.dim() != 1)
    refuse_checkpoint(path, "does not say which channels were removed");
  const torch::Tensor row = tensor.contiguous();
  return std::vector<bool>(row.const_data_ptr<bool>(), row.const_data_ptr<bool>() + row.numel());
}

// The network as the checkpoint knows it: `model` itself, or a copy of it without the channels that were removed.
std::shared_ptr<const GraphModule> network_of(const std::filesystem::path& path,
                                              const std::shared_ptr<GraphModule>& model,
                                              const std::optional<std::vector<bool>>& own_removed,
                                              const std::optional<std::vector<bool>>& removed) {
  if (own_removed == removed) return model;
  if (own_removed)
    refuse_checkpoint(path,
                      "was written when the network had other channels; load it into a compressor of the whole "
                      "network, before channels are removed");
  auto smaller = std::dynamic_pointer_cast<GraphModule>(model->clone());
  const ChannelGroups groups = find_channel_groups(model->graph());
  if (removed->size() != groups.size()) refuse_checkpoint(path, "has removed channels of another network");
  try {
    smaller->remove_channels(remove_channels(model->graph(), groups, *removed));
  } catch (const Error& error) {
    refuse_checkpoint(path, error.what());
  }
  return smaller;
}

// None, or one for each parameter and floating-point buffer.
void require_fitting_average(const std::filesystem::path& path, const GraphModule& model, const NamedTensors& saved) {
  if (saved.empty()) return;
  std::map<std::string, torch::Tensor> own;
  for (const auto& [name, tensor] : own_tensors(model))
    if (tensor.is_floating_point()) own.emplace(name, tensor);
  require_fitting(path, named(own), saved);
}

// What a checkpoint holds, read and found to fit.
struct Contents {
  std::optional<std::vector<bool>> removed_channels;
  NamedTensors tensors;
  NamedTensors gradients;
  PrunerState pruner;
  bool rounded_zeros_folded = false;
  QuantizerState quantizer;
  GoldbargState goldbarg;
  bool calibrated = false;
  NamedTensors average;
  bool batch_norms_frozen = false;
  std::int64_t epoch = 0;
  std::int64_t steps_in_epoch = 0;
  torch::Tensor random;
  InputArchive optimizer;
  InputArchive sampler;
};

}  // namespace

void Compressor::save_checkpoint(const std::filesystem::path& path) const {
  const State& state = *state_;
  state.require_training("save_checkpoint");

  NamedTensors quantizer;
  if (state.quantizer) quantizer = tensors_of(state.quantizer->state());

  OutputArchive archive;
  archive.write("format", c10::IValue(std::string(format_name)));
  archive.write("version", c10::IValue(checkpoint_version));
  archive.write("recipe", c10::IValue(recipe_hash(state.recipe)));
  archive.write("epoch", c10::IValue(state.epoch));
  archive.write("steps_in_epoch", c10::IValue(state.steps_in_epoch));
  archive.write("steps_per_epoch", c10::IValue(state.steps_per_epoch));
  archive.write("calibrated", c10::IValue(state.calibrated));
  archive.write("batch_norms_frozen", c10::IValue(state.model->batch_norms_frozen()));
  write_tensors(archive, "tensors", own_tensors(*state.model));
  write_tensors(archive, "gradients", gradients(*state.model));
  write_pruner_state(archive, state.pruner ? state.pruner->state() : PrunerState());
  archive.write("has_removed_channels", c10::IValue(state.removed_channels.has_value()));
  archive.write("removed_channels", flags_tensor(state.removed_channels.value_or(std::vector<bool>())),
                /*is_buffer=*/true);
  archive.write("rounded_zeros_folded", c10::IValue(state.rounded_zeros_folded));
  write_tensors(archive, "quantizer", quantizer);
  write_goldbarg_state(archive, state.goldbarg ? state.goldbarg->state() : GoldbargState());
  write_tensors(archive, "average", state.average ? named(state.average->tensors()) : NamedTensors());
  archive.write("teacher", c10::IValue(state.teacher));
  archive.write("random", random_state(), /*is_buffer=*/true);

  write_optimizer(archive, *state.model, *state.optimizer);
  archive.write("has_sampler", c10::IValue(state.sampler != nullptr));
  if (state.sampler != nullptr) {
    OutputArchive sampler(archive.compilation_unit());
    state.sampler->save(sampler);
    archive.write("sampler", sampler);
  }

  write_archive(archive, path);
}

void Compressor::load_checkpoint(const std::filesystem::path& path) {
  State& state = *state_;
  if (state.optimizer == nullptr) throw Error(ErrorCode::invalid_argument, "load_checkpoint: call attach first");
  InputArchive archive = open_archive(path);

  // Everything that can be refused is, before anything changes.
  Contents contents = read_or_refuse(path, [&] {
    if (const std::int64_t version = read_integer(archive, "version"); version != checkpoint_version)
      refuse_checkpoint(path,
                        fmt::format("is of version {}, this podaq reads version {}", version, checkpoint_version));
    if (read_string(archive, "recipe") != recipe_hash(state.recipe))
      refuse_checkpoint(path, "was written under another recipe");
    if (const std::int64_t steps = read_integer(archive, "steps_per_epoch"); steps != state.steps_per_epoch)
      refuse_checkpoint(path, fmt::format("was written with {} optimizer steps an epoch, attach said {}", steps,
                                          state.steps_per_epoch));
    if (read_flag(archive, "has_sampler") != (state.sampler != nullptr))
      refuse_checkpoint(path, state.sampler != nullptr ? "holds no sampler, but attach was given one"
                                                       : "holds a sampler: give attach one too");
    Contents read;
    read.removed_channels = read_removed_channels(path, archive);
    const auto model = network_of(path, state.model, state.removed_channels, read.removed_channels);
    read.tensors = read_tensors(archive, "tensors");
    require_fitting(path, own_tensors(*model), read.tensors);
    read.gradients = read_tensors(archive, "gradients");
    require_fitting_gradients(path, *model, read.gradients);
    require_same_optimizer(path, archive, *state.model, *state.optimizer);
    const bool removes = state.recipe.prune && removes_channels(*state.recipe.prune);
    const bool prunes_channels =
        state.recipe.prune && std::holds_alternative<ChannelPattern>(state.recipe.prune->pattern);
    read.pruner = read_pruner_state(path, *model, state.groups, prunes_channels, archive);
    if (read.removed_channels && !(removes && state.pruner->is_settled(read.pruner.updated_step)))
      refuse_checkpoint(path, "has removed channels before the recipe does");
    read.rounded_zeros_folded = read_flag(archive, "rounded_zeros_folded");
    if (state.quantizer)
      read.quantizer =
          quantizer_state_in(path, make_quantizer(*model, state.recipe), read_tensors(archive, "quantizer"));
    read.goldbarg = read_goldbarg_state(path, state.goldbarg ? &*state.goldbarg : nullptr, archive);
    read.calibrated = read_flag(archive, "calibrated");
    read.average = read_tensors(archive, "average");
    require_fitting_average(path, *model, read.average);
    if (read_string(archive, "teacher") != state.teacher)
      refuse_checkpoint(path, "was written with another teacher; give attach the hash of the same one");
    read.batch_norms_frozen = read_flag(archive, "batch_norms_frozen");
    read.epoch = read_integer(archive, "epoch");
    read.steps_in_epoch = read_integer(archive, "steps_in_epoch");
    if (read.epoch < 0 || read.epoch > epochs() || read.steps_in_epoch < 0 ||
        read.steps_in_epoch > state.steps_per_epoch)
      refuse_checkpoint(path, fmt::format("stands at step {} of epoch {}; the recipe has {} epochs of {} steps",
                                          read.steps_in_epoch, read.epoch, epochs(), state.steps_per_epoch));
    const std::int64_t position = read.epoch * state.steps_per_epoch + read.steps_in_epoch;
    if (read.pruner.updated_step < -1 || read.pruner.updated_step > position)
      refuse_checkpoint(
          path, fmt::format("moved masks for step {}, but stands at step {}", read.pruner.updated_step, position));
    if (read.goldbarg.updated_position < -1 || read.goldbarg.updated_position > position)
      refuse_checkpoint(path, fmt::format("chose the steps of [goldbarg] at step {}, but stands at step {}",
                                          read.goldbarg.updated_position, position));
    read.random = read_random_state(path, archive);
    archive.read("optimizer", read.optimizer);
    if (state.sampler != nullptr) {
      archive.read("sampler", read.sampler);
      require_fitting_sampler(path, read.sampler, *state.sampler);
    }
    return read;
  });

  load_optimizer(path, contents.optimizer, *state.optimizer);
  if (contents.removed_channels && !state.removed_channels) {
    state.optimizer->state().clear();  // it is cut already
    state.pruner->set_state({.updated_step = contents.pruner.updated_step});
    state.remove_channels(*contents.removed_channels);
    load_optimizer(path, contents.optimizer, *state.optimizer);
  }
  if (state.sampler != nullptr) state.sampler->load(contents.sampler);
  copy_into(*state.model, contents.tensors);
  set_gradients(*state.model, contents.gradients);
  if (state.pruner) state.pruner->set_state(std::move(contents.pruner));
  state.rounded_zeros_folded = contents.rounded_zeros_folded;
  if (state.quantizer) {
    state.quantizer->disable(*state.model);
    state.quantizer->freeze_observers(false);
    state.quantizer->set_state(contents.quantizer);
  }
  if (state.goldbarg) state.goldbarg->set_state(*state.model, contents.goldbarg);
  state.calibrated = contents.calibrated;
  state.average_is_swapped_in = false;
  if (state.average) state.average->set_tensors({contents.average.begin(), contents.average.end()});
  state.model->freeze_batch_norms(contents.batch_norms_frozen);
  state.epoch = contents.epoch;
  state.steps_in_epoch = contents.steps_in_epoch;
  state.idle_quantizers.clear();
  state.follow_position();

  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_state(contents.random);
}

}  // namespace podaq
