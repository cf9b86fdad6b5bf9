#include "compress/checkpoint_tensors.h"

#include <fmt/format.h>
#include <torch/serialize/tensor.h>

#include <cstddef>

#include "compress/sealed_file.h"
#include "podaq/core/error.h"

namespace podaq::compress_detail {

using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

namespace {
constexpr std::uint64_t largest_archive = std::uint64_t{1} << 40;
}  // namespace

void refuse_checkpoint(const std::filesystem::path& path, const std::string& problem) {
  throw Error(ErrorCode::invalid_argument, fmt::format("checkpoint '{}': {}", path.string(), problem));
}

NamedTensors named(const std::map<std::string, torch::Tensor>& tensors) {
  return {tensors.begin(), tensors.end()};
}

void write_archive(OutputArchive& archive, const std::filesystem::path& path) {
  std::vector<std::byte> bytes;
  archive.save_to([&](const void* data, std::size_t size) {
    const auto* first = static_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), first, first + size);
    return size;
  });
  write_sealed(path, std::move(bytes));
}

std::optional<InputArchive> read_archive(const std::filesystem::path& path) {
  const auto bytes = read_sealed(path, largest_archive);
  if (!bytes) return std::nullopt;
  InputArchive archive;
  try {
    archive.load_from(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  } catch (const std::exception&) {
    return std::nullopt;
  }
  return archive;
}

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

std::int64_t read_integer(InputArchive& archive, const std::string& key) {
  c10::IValue value;
  archive.read(key, value);
  return value.toInt();
}

std::string read_string(torch::serialize::InputArchive& archive, const std::string& key) {
  c10::IValue value;
  archive.read(key, value);
  return value.toStringRef();
}

bool fits(const torch::Tensor& saved, const torch::Tensor& own) {
  return saved.defined() && saved.sizes() == own.sizes() && saved.scalar_type() == own.scalar_type();
}

void require_fitting(const std::filesystem::path& path, const NamedTensors& own, const NamedTensors& saved) {
  if (saved.size() != own.size())
    refuse_checkpoint(path, fmt::format("holds {} tensors, the network has {}", saved.size(), own.size()));
  for (std::size_t i = 0; i < own.size(); ++i)
    if (saved[i].first != own[i].first || !fits(saved[i].second, own[i].second))
      refuse_checkpoint(path, fmt::format("tensor '{}' does not fit the network's '{}'", saved[i].first, own[i].first));
}

}  // namespace podaq::compress_detail
