#pragma once

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string_view>

#include "podaq/core/error.h"
#include "podaq/core/text.h"

namespace podaq {

// Owns an open file; closes it.
class FileDescriptor {
 public:
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (number_ >= 0) ::close(number_);
  }

  [[nodiscard]] bool is_open() const { return number_ >= 0; }
  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

[[noreturn]] inline void throw_io(std::string_view what, const std::filesystem::path& path, int error_number) {
  throw Error(ErrorCode::io, concat("cannot ", what, " '", path.string(), "': ", std::strerror(error_number)));
}

}  // namespace podaq
