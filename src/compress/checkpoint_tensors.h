#pragma once

#include <torch/serialize/archive.h>
#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace podaq::compress_detail {

/// Throws Error(invalid_argument) naming the checkpoint.
[[noreturn]] void refuse_checkpoint(const std::filesystem::path& path, const std::string& problem);

/// Archives keep dots for themselves, so tensors are numbered and their names stand beside them.
using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

[[nodiscard]] NamedTensors named(const std::map<std::string, torch::Tensor>& tensors);

void write_tensors(torch::serialize::OutputArchive& archive, const std::string& key, const NamedTensors& tensors);
[[nodiscard]] NamedTensors read_tensors(torch::serialize::InputArchive& archive, const std::string& key);
[[nodiscard]] std::int64_t read_integer(torch::serialize::InputArchive& archive, const std::string& key);
[[nodiscard]] std::string read_string(torch::serialize::InputArchive& archive, const std::string& key);

/// Writes the archive as a sealed file (see sealed_file.h).
void write_archive(torch::serialize::OutputArchive& archive, const std::filesystem::path& path);

/// Reads what `write_archive` wrote; none for a damaged file or another one.
[[nodiscard]] std::optional<torch::serialize::InputArchive> read_archive(const std::filesystem::path& path);

/// Whether shape and type are the same.
[[nodiscard]] bool fits(const torch::Tensor& saved, const torch::Tensor& own);

/// Refuses a checkpoint whose tensors are not those of the network, in the same order.
void require_fitting(const std::filesystem::path& path, const NamedTensors& own, const NamedTensors& saved);

}  // namespace podaq::compress_detail
