#pragma once

#include <torch/script.h>

#include <cstdint>
#include <filesystem>
#include <functional>

#include "compress/sealed_file.h"
#include "podaq/core/file.h"

namespace podaq::test {

/// Changes a checkpoint in place as another program would, its seal included.
inline void tamper(const std::filesystem::path& path, const std::function<void(torch::jit::Module&)>& change) {
  torch::jit::Module archive = torch::jit::load(path.string());
  change(archive);
  archive.save(path.string());
  compress_detail::write_sealed(path, read_file(path, std::uint64_t{1} << 30));
}

}  // namespace podaq::test
