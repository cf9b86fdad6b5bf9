#include "study/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

#include "podaq/core/error.h"
#include "podaq/core/text.h"

namespace podaq::study_detail {

FolderLock::FolderLock(const std::filesystem::path& folder)
    : file_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (!file_.is_open()) throw_io("open", folder, errno);
  if (::flock(file_.number(), LOCK_EX | LOCK_NB) == 0) return;
  if (errno == EWOULDBLOCK)
    throw Error(ErrorCode::io,
                concat("another process works in '", folder.string(), "'; wait for it, or choose another folder"));
  throw_io("lock", folder, errno);
}

}  // namespace podaq::study_detail
