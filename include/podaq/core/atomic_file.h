#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>

namespace podaq {

/// Makes `bytes` the whole content of the file at `path`, or leaves what was there: writes a temporary file in the
/// same folder, syncs it, and renames it over `path`. A link is followed; an existing file's permissions are kept, a
/// new one gets those of the process's umask. Throws Error(io) naming the path and the system's reason, after removing
/// the temporary.
/// @param permissions  what the file is to have instead, whether it existed or not.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes,
                           std::optional<std::filesystem::perms> permissions = {});

/// A file that is made piece by piece, through the temporary's path or its open descriptor, and appears whole or not at
/// all, as with `write_file_atomically`. A process that is killed leaves the temporary behind (`.podaq-*.tmp`), never a
/// part of the file.
class AtomicFile {
 public:
  /// Creates the empty temporary beside `path`.
  explicit AtomicFile(const std::filesystem::path& path, std::optional<std::filesystem::perms> permissions = {});
  /// Removes the temporary unless it has become the file.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Where to write, for a library that opens files itself; it must have closed them before `commit`.
  [[nodiscard]] const std::filesystem::path& temporary() const noexcept { return temporary_; }
  /// The temporary, open for writing; closed by `commit` or the destructor.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

  /// Syncs what was written and renames it over the path. Call it once.
  void commit();

 private:
  void discard() noexcept;

  std::filesystem::path target_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
  bool committed_ = false;
};

/// Throws as `write_file_atomically` would if a file could not be written at `path` now; writes nothing. For long work
/// that ends in a file: better refused before than lost after.
void require_writable(const std::filesystem::path& path);

}  // namespace podaq
