#pragma once

#include <filesystem>

#include "core/file_descriptor.h"

namespace podaq::study_detail {

/// Keeps other processes from working in a folder while it lives; ends with the process, however that ends.
class FolderLock {
 public:
  /// Throws Error(io) naming the folder where another process holds it or it cannot be written.
  explicit FolderLock(const std::filesystem::path& folder);

 private:
  FileDescriptor file_;
};

}  // namespace podaq::study_detail
