#include "podaq/core/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <optional>
#include <utility>

#include "core/file_descriptor.h"

namespace podaq {
namespace {

std::filesystem::path follow_links(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error)) return path;
  auto target = std::filesystem::weakly_canonical(path, error);
  if (error) throw_io("write", path, error.value());
  return target;
}

std::optional<mode_t> permissions_to_keep(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return std::nullopt;
    throw_io("write", path, errno);
  }
  if (!S_ISREG(status.st_mode))
    throw Error(ErrorCode::io, concat("cannot write '", path.string(), "': it exists and is not a regular file"));
  return status.st_mode & 07777;
}

// A short name of its own, so that a target with the longest allowed name still has room for its temporary.
std::filesystem::path new_temporary_path(const std::filesystem::path& folder) {
  static std::atomic<unsigned> counter{0};
  return folder / concat(".podaq-", ::getpid(), "-", counter.fetch_add(1), ".tmp");
}

void write_all(int file, std::span<const std::byte> bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_io("write", path, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void sync_folder(const std::filesystem::path& folder) {
  const FileDescriptor file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!file.is_open()) return;  // A folder that may be written but not read cannot be synced.
  // Some file systems offer no sync of folders and say EINVAL.
  if (::fsync(file.number()) != 0 && errno != EINVAL) throw_io("sync the folder", folder, errno);
}

std::filesystem::path folder_of(const std::filesystem::path& target) {
  return target.has_parent_path() ? target.parent_path() : std::filesystem::path(".");
}

// Creates an empty temporary beside `target` and tells its path.
int create_beside(const std::filesystem::path& target, std::filesystem::path& temporary_path) {
  int number = -1;
  do {
    temporary_path = new_temporary_path(folder_of(target));
    number = ::open(temporary_path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (number < 0 && errno == EEXIST);
  if (number < 0) throw_io("create a file beside", target, errno);
  return number;
}

}  // namespace

void require_writable(const std::filesystem::path& path) {
  const AtomicFile file(path);
}

AtomicFile::AtomicFile(const std::filesystem::path& path, std::optional<std::filesystem::perms> permissions)
    : target_(follow_links(path)) {
  std::optional<mode_t> mode = permissions_to_keep(target_);
  if (permissions) mode = static_cast<mode_t>(*permissions);
  if (!target_.has_filename())
    throw Error(ErrorCode::io, concat("cannot write '", path.string(), "': it names a folder, not a file"));
  descriptor_ = create_beside(target_, temporary_);
  if (!mode || ::fchmod(descriptor_, *mode) == 0) return;
  const int error_number = errno;
  discard();
  throw_io("set the permissions of", target_, error_number);
}

AtomicFile::~AtomicFile() {
  if (!committed_) discard();
}

void AtomicFile::discard() noexcept {
  if (descriptor_ >= 0) ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) throw_io("write", target_, errno);
  // A full disk may only show here.
  if (::close(std::exchange(descriptor_, -1)) != 0) throw_io("write", target_, errno);
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) throw_io("write", target_, errno);
  committed_ = true;
  sync_folder(folder_of(target_));
}

void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes,
                           std::optional<std::filesystem::perms> permissions) {
  AtomicFile file(path, permissions);
  write_all(file.descriptor(), bytes, path);
  file.commit();
}

}  // namespace podaq
