#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <torch/serialize/archive.h>
#include <torch/serialize/tensor.h>

#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <sstream>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include "compress/compressor_state.h"
#include "compress/quantizer_tensors.h"
#include "podaq/core/atomic_file.h"
#include "podaq/core/error.h"
#include "podaq/core/file.h"
#include "podaq/training/random_sampler.h"

// A checkpoint is an archive of LibTorch's, because its optimizers and samplers write and read their state that way.

namespace podaq {
namespace {

using compress_detail::NamedTensors;
using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

constexpr std::string_view format_name = "podaq checkpoint";
constexpr std::int64_t checkpoint_version = 2;
constexpr std::uint64_t largest_checkpoint = std::uint64_t{1} << 40;

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& problem) {
  throw Error(ErrorCode::invalid_argument, fmt::format("checkpoint '{}': {}", path.string(), problem));
}

// Archives keep dots for themselves, so tensors are numbered and their names stand beside them.

void write_tensors(OutputArchive& archive, const std::string& key, const NamedTensors& tensors) {
  OutputArchive group(archive.compilation_unit());
  group.write("count", c10::IValue(static_cast<std::int64_t>(tensors.size())));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    group.write(fmt::format("name{}", i), c10::IValue(tensors[i].first));
    group.write(fmt::format("tensor{}", i), tensors[i].second, /*is_buffer=*/true);
  }
  archive.write(key, group);
}

NamedTensors read_tensors(InputArchive& archive, const std::string& key) {
  InputArchive group;
  archive.read(key, group);
  c10::IValue count;
  group.read("count", count);
  NamedTensors tensors;
  for (std::int64_t i = 0; i < count.toInt(); ++i) {
    c10::IValue name;
    torch::Tensor tensor;
    group.read(fmt::format("name{}", i), name);
    group.read(fmt::format("tensor{}", i), tensor, /*is_buffer=*/true);
    tensors.emplace_back(name.toStringRef(), tensor);
  }
  return tensors;
}

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

std::int64_t read_integer(InputArchive& archive, const std::string& key) {
  c10::IValue value;
  archive.read(key, value);
  return value.toInt();
}

std::string read_string(InputArchive& archive, const std::string& key) {
  c10::IValue value;
  archive.read(key, value);
  return value.toStringRef();
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
  const std::vector<std::byte> bytes = read_file(path, largest_checkpoint);
  InputArchive archive;
  try {
    archive.load_from(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (read_string(archive, "format") == format_name) return archive;
  } catch (const std::exception&) {
  }
  throw Error(ErrorCode::format,
              fmt::format("checkpoint '{}': this is no checkpoint of podaq, or a damaged one", path.string()));
}

bool fits(const torch::Tensor& saved, const torch::Tensor& own) {
  return saved.defined() && saved.sizes() == own.sizes() && saved.scalar_type() == own.scalar_type();
}

void require_fitting(const std::filesystem::path& path, const GraphModule& model, const NamedTensors& saved) {
  const NamedTensors own = own_tensors(model);
  if (saved.size() != own.size())
    refuse(path, fmt::format("holds {} tensors, the network has {}", saved.size(), own.size()));
  for (std::size_t i = 0; i < own.size(); ++i)
    if (saved[i].first != own[i].first || !fits(saved[i].second, own[i].second))
      refuse(path, fmt::format("tensor '{}' does not fit the network's '{}'", saved[i].first, own[i].first));
}

void require_fitting_gradients(const std::filesystem::path& path, const GraphModule& model, const NamedTensors& saved) {
  const auto parameters = model.named_parameters();
  for (const auto& [name, gradient] : saved) {
    const torch::Tensor* parameter = parameters.find(name);
    if (parameter == nullptr || !fits(gradient, *parameter))
      refuse(path, fmt::format("the gradient of '{}' fits no parameter of the network", name));
  }
}

Masks masks_of(const std::filesystem::path& path, const GraphModule& model, std::span<const PruneGroup> groups,
               const NamedTensors& saved) {
  std::map<std::string, torch::Tensor> weights;
  for (const PruneGroup& group : groups)
    for (const WeightedLayer& layer : group.layers) weights.emplace(layer.weight, model.tensor(layer.weight));
  Masks masks;
  for (const auto& [name, mask] : saved) {
    const auto weight = weights.find(name);
    if (weight == weights.end()) refuse(path, fmt::format("masks '{}', which the recipe does not prune", name));
    if (mask.scalar_type() != torch::kBool || mask.sizes() != weight->second.sizes())
      refuse(path, fmt::format("the mask of '{}' does not fit it", name));
    masks.emplace(name, mask);
  }
  return masks;
}

QuantizerState quantizer_state_in(const std::filesystem::path& path, const NetworkQuantizer& quantizer,
                                  const NamedTensors& saved) {
  try {
    QuantizerState state = compress_detail::state_in(saved, quantizer.state());
    quantizer.require_fitting(state);
    return state;
  } catch (const Error& error) {
    refuse(path, error.what());
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
    refuse(path, error.what());
  }
}

torch::Tensor read_random_state(const std::filesystem::path& path, InputArchive& archive) {
  torch::Tensor state;
  archive.read("random", state, /*is_buffer=*/true);
  try {
    at::Generator stand_in = at::detail::createCPUGenerator();
    stand_in.set_state(state);
  } catch (const c10::Error& error) {
    refuse(path, fmt::format("the random state is none of LibTorch's: {}", error.what_without_backtrace()));
  }
  return state;
}

// Optimizers read in place and may refuse half-way, so what they held is put back then.
void load_optimizer(const std::filesystem::path& path, InputArchive& saved, torch::optim::Optimizer& optimizer) {
  auto state = std::move(optimizer.state());
  std::vector<std::unique_ptr<torch::optim::OptimizerOptions>> options;
  for (const auto& group : optimizer.param_groups()) options.push_back(group.options().clone());
  optimizer.state().clear();
  const auto put_back = [&] {
    optimizer.state() = std::move(state);
    for (std::size_t i = 0; i < options.size(); ++i) optimizer.param_groups()[i].set_options(std::move(options[i]));
  };
  try {
    optimizer.load(saved);
  } catch (const c10::Error& error) {
    put_back();
    refuse(path, fmt::format("the optimizer's parameter groups differ: {}", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    put_back();
    refuse(path, fmt::format("the optimizer's state is damaged: {}", error.what()));
  }
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

// What a checkpoint holds, read and found to fit.
struct Contents {
  NamedTensors tensors;
  NamedTensors gradients;
  Masks masks;
  QuantizerState quantizer;
  bool calibrated = false;
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
  if (!state.is_attached()) throw Error(ErrorCode::invalid_argument, "save_checkpoint: call attach first");

  NamedTensors masks;
  if (state.pruner)
    for (const auto& [name, mask] : state.pruner->masks()) masks.emplace_back(name, mask);
  NamedTensors quantizer;
  if (state.quantizer) quantizer = compress_detail::tensors_of(state.quantizer->state());

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
  write_tensors(archive, "masks", masks);
  write_tensors(archive, "quantizer", quantizer);
  archive.write("random", random_state(), /*is_buffer=*/true);

  OutputArchive optimizer(archive.compilation_unit());
  state.optimizer->save(optimizer);
  archive.write("optimizer_kind", c10::IValue(std::string(typeid(*state.optimizer).name())));
  archive.write("optimizer", optimizer);
  archive.write("has_sampler", c10::IValue(state.sampler != nullptr));
  if (state.sampler != nullptr) {
    OutputArchive sampler(archive.compilation_unit());
    state.sampler->save(sampler);
    archive.write("sampler", sampler);
  }

  std::ostringstream stream;
  archive.save_to(stream);
  const std::string bytes = std::move(stream).str();
  write_file_atomically(path, std::as_bytes(std::span(bytes)));
}

void Compressor::load_checkpoint(const std::filesystem::path& path) {
  State& state = *state_;
  if (!state.is_attached()) throw Error(ErrorCode::invalid_argument, "load_checkpoint: call attach first");
  InputArchive archive = open_archive(path);

  // Everything that can be refused is, before anything changes.
  Contents contents = read_or_refuse(path, [&] {
    if (const std::int64_t version = read_integer(archive, "version"); version != checkpoint_version)
      refuse(path, fmt::format("is of version {}, this podaq reads version {}", version, checkpoint_version));
    if (read_string(archive, "recipe") != recipe_hash(state.recipe)) refuse(path, "was written under another recipe");
    if (const std::int64_t steps = read_integer(archive, "steps_per_epoch"); steps != state.steps_per_epoch)
      refuse(path,
             fmt::format("was written with {} optimizer steps an epoch, attach said {}", steps, state.steps_per_epoch));
    if (read_string(archive, "optimizer_kind") != typeid(*state.optimizer).name())
      refuse(path, "was written with another kind of optimizer");
    if (read_flag(archive, "has_sampler") != (state.sampler != nullptr))
      refuse(path, state.sampler != nullptr ? "holds no sampler, but attach was given one"
                                            : "holds a sampler: give attach one too");
    Contents read;
    read.tensors = read_tensors(archive, "tensors");
    require_fitting(path, *state.model, read.tensors);
    read.gradients = read_tensors(archive, "gradients");
    require_fitting_gradients(path, *state.model, read.gradients);
    read.masks = masks_of(path, *state.model, state.groups, read_tensors(archive, "masks"));
    if (state.quantizer)
      read.quantizer = quantizer_state_in(path, *state.quantizer, read_tensors(archive, "quantizer"));
    read.calibrated = read_flag(archive, "calibrated");
    read.batch_norms_frozen = read_flag(archive, "batch_norms_frozen");
    read.epoch = read_integer(archive, "epoch");
    read.steps_in_epoch = read_integer(archive, "steps_in_epoch");
    if (read.epoch < 0 || read.epoch > epochs() || read.steps_in_epoch < 0 ||
        read.steps_in_epoch > state.steps_per_epoch)
      refuse(path, fmt::format("stands at step {} of epoch {}; the recipe has {} epochs of {} steps",
                               read.steps_in_epoch, read.epoch, epochs(), state.steps_per_epoch));
    read.random = read_random_state(path, archive);
    archive.read("optimizer", read.optimizer);
    if (state.sampler != nullptr) {
      archive.read("sampler", read.sampler);
      require_fitting_sampler(path, read.sampler, *state.sampler);
    }
    return read;
  });

  load_optimizer(path, contents.optimizer, *state.optimizer);
  if (state.sampler != nullptr) state.sampler->load(contents.sampler);
  copy_into(*state.model, contents.tensors);
  set_gradients(*state.model, contents.gradients);
  if (state.pruner) state.pruner->set_masks(std::move(contents.masks));
  if (state.quantizer) {
    state.quantizer->disable(*state.model);
    state.quantizer->freeze_observers(false);
    state.quantizer->set_state(contents.quantizer);
  }
  state.calibrated = contents.calibrated;
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
