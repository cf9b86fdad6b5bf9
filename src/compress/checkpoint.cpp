#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <torch/serialize/archive.h>
#include <torch/serialize/tensor.h>

#include <mutex>
#include <span>
#include <sstream>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include "compress/compressor_state.h"
#include "podaq/core/atomic_file.h"
#include "podaq/core/error.h"
#include "podaq/core/file.h"
#include "podaq/training/random_sampler.h"

// A checkpoint is an archive of LibTorch's, because its optimizers and samplers write and read their state that way.

namespace podaq {
namespace {

using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

constexpr std::string_view format_name = "podaq checkpoint";
constexpr std::int64_t checkpoint_version = 1;
constexpr std::uint64_t largest_checkpoint = std::uint64_t{1} << 40;

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& problem) {
  throw Error(ErrorCode::invalid_argument, fmt::format("checkpoint '{}': {}", path.string(), problem));
}

// Archives keep dots for themselves, so tensors are numbered and their names stand beside them.
using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

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

torch::Tensor range_tensor(const ObservedRange& range) {
  return torch::tensor(
      {range.minimum, range.maximum, range.is_observed ? 1.0 : 0.0, static_cast<double>(range.not_finite_elements)},
      torch::kDouble);
}

ObservedRange range_of(const torch::Tensor& tensor) {
  return {.minimum = tensor[0].item<double>(),
          .maximum = tensor[1].item<double>(),
          .is_observed = tensor[2].item<double>() != 0.0,
          .not_finite_elements = static_cast<std::int64_t>(tensor[3].item<double>())};
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

InputArchive open_archive(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = read_file(path, largest_checkpoint);
  InputArchive archive;
  try {
    archive.load_from(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (read_string(archive, "format") == format_name) return archive;
  } catch (const c10::Error&) {
  }
  throw Error(ErrorCode::format,
              fmt::format("checkpoint '{}': this is no checkpoint of podaq, or a damaged one", path.string()));
}

void require_fitting(const std::filesystem::path& path, const GraphModule& model, const NamedTensors& saved) {
  const NamedTensors own = own_tensors(model);
  if (saved.size() != own.size())
    refuse(path, fmt::format("holds {} tensors, the network has {}", saved.size(), own.size()));
  for (std::size_t i = 0; i < own.size(); ++i)
    if (saved[i].first != own[i].first || saved[i].second.sizes() != own[i].second.sizes())
      refuse(path, fmt::format("tensor '{}' does not fit the network's '{}'", saved[i].first, own[i].first));
}

void copy_into(const GraphModule& model, const NamedTensors& saved) {
  const NamedTensors own = own_tensors(model);
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < own.size(); ++i) torch::Tensor(own[i].second).copy_(saved[i].second);
}

void load_optimizer(const std::filesystem::path& path, InputArchive& archive, torch::optim::Optimizer& optimizer) {
  InputArchive saved;
  archive.read("optimizer", saved);
  try {
    optimizer.state().clear();
    optimizer.load(saved);
  } catch (const c10::Error& error) {
    refuse(path, fmt::format("the optimizer's parameter groups differ: {}", error.what_without_backtrace()));
  }
}

void set_gradients(const GraphModule& model, const NamedTensors& saved) {
  for (const auto& item : model.named_parameters()) torch::Tensor(item.value()).mutable_grad() = torch::Tensor();
  for (const auto& [name, gradient] : saved) model.tensor(name).mutable_grad() = gradient.clone();
}

}  // namespace

void Compressor::save_checkpoint(const std::filesystem::path& path) const {
  const State& state = *state_;
  if (!state.is_attached()) throw Error(ErrorCode::invalid_argument, "save_checkpoint: call attach first");

  NamedTensors masks;
  if (state.pruner)
    for (const auto& [name, mask] : state.pruner->masks()) masks.emplace_back(name, mask);
  NamedTensors ranges;
  if (state.quantizer)
    for (const auto& [name, range] : state.quantizer->ranges()) ranges.emplace_back(name, range_tensor(range));

  OutputArchive archive;
  archive.write("format", c10::IValue(std::string(format_name)));
  archive.write("version", c10::IValue(checkpoint_version));
  archive.write("recipe", c10::IValue(recipe_hash(state.recipe)));
  archive.write("epoch", c10::IValue(state.epoch));
  archive.write("steps_in_epoch", c10::IValue(state.steps_in_epoch));
  archive.write("steps_per_epoch", c10::IValue(state.steps_per_epoch));
  archive.write("batch_norms_frozen", c10::IValue(state.model->batch_norms_frozen()));
  write_tensors(archive, "tensors", own_tensors(*state.model));
  write_tensors(archive, "gradients", gradients(*state.model));
  write_tensors(archive, "masks", masks);
  write_tensors(archive, "ranges", ranges);
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
  const NamedTensors tensors = read_tensors(archive, "tensors");
  require_fitting(path, *state.model, tensors);
  Masks masks;
  for (const auto& [name, mask] : read_tensors(archive, "masks")) masks.emplace(name, mask);
  std::map<std::string, ObservedRange> ranges;
  for (const auto& [name, range] : read_tensors(archive, "ranges")) ranges.emplace(name, range_of(range));

  load_optimizer(path, archive, *state.optimizer);
  if (state.sampler != nullptr) {
    InputArchive sampler;
    archive.read("sampler", sampler);
    state.sampler->load(sampler);
  }
  copy_into(*state.model, tensors);
  set_gradients(*state.model, read_tensors(archive, "gradients"));
  if (state.pruner) state.pruner->set_masks(std::move(masks));
  if (state.quantizer) {
    state.quantizer->disable(*state.model);
    state.quantizer->freeze_observers(false);
    state.quantizer->set_ranges(ranges);
  }
  state.model->freeze_batch_norms(read_flag(archive, "batch_norms_frozen"));
  state.epoch = read_integer(archive, "epoch");
  state.steps_in_epoch = read_integer(archive, "steps_in_epoch");
  state.idle_quantizers.clear();
  state.follow_position();

  torch::Tensor random;
  archive.read("random", random, /*is_buffer=*/true);
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_state(random);
}

}  // namespace podaq
