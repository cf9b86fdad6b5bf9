#include "podaq/core/file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "core/file_descriptor.h"

namespace podaq {

std::vector<std::byte> read_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  // Non-blocking, so that opening a pipe does not wait for its writer.
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) throw_io("open", path, errno);
  struct stat status {};
  if (::fstat(file.number(), &status) != 0) throw_io("read", path, errno);
  if (!S_ISREG(status.st_mode))
    throw Error(ErrorCode::io, concat("cannot read '", path.string(), "': it is not a regular file"));
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size > max_bytes)
    throw Error(ErrorCode::io, concat("cannot read '", path.string(), "': it holds ", size, " bytes, more than the ",
                                      max_bytes, " allowed"));

  std::vector<std::byte> bytes(size);
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t count = ::read(file.number(), bytes.data() + filled, bytes.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_io("read", path, errno);
    if (count == 0) break;
    filled += static_cast<std::size_t>(count);
  }
  bytes.resize(filled);
  return bytes;
}

}  // namespace podaq
