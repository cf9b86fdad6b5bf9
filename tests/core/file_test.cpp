#include "podaq/core/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "podaq/core/atomic_file.h"
#include "podaq/core/error.h"
#include "support/temporary_folder.h"

namespace podaq {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

class FileTest : public testing::Test {
 protected:
  [[nodiscard]] std::size_t file_count() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  test::TemporaryFolder temporary_;
  const fs::path& folder_ = temporary_.path();
};

template <typename Action>
std::string io_error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST_F(FileTest, WritesAndReads) {
  const auto path = folder_ / "a";
  for (const std::string_view text : {"first", "", "a longer second content"}) {
    write_file_atomically(path, bytes_of(text));
    EXPECT_EQ(read_file(path, 100), bytes_of(text));
    EXPECT_EQ(file_count(), 1U);
  }
}

TEST_F(FileTest, GivesTheFileThePermissionsAskedFor) {
  const auto path = folder_ / "a";
  for (const auto permissions : {fs::perms{0600}, fs::perms{0444}, fs::perms{0640}}) {
    write_file_atomically(path, bytes_of("x"), permissions);
    EXPECT_EQ(fs::status(path).permissions(), permissions);
  }
  write_file_atomically(path, bytes_of("y"));
  EXPECT_EQ(fs::status(path).permissions(), fs::perms{0640}) << "kept";
}

TEST_F(FileTest, TakesTheLongestName) {
  const auto path = folder_ / std::string(255, 'x');
  write_file_atomically(path, bytes_of("content"));
  EXPECT_EQ(read_file(path, 100), bytes_of("content"));
}

TEST_F(FileTest, KeepsPermissionsOfAnExistingFile) {
  const auto path = folder_ / "a";
  write_file_atomically(path, bytes_of("one"));
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  const mode_t umask_now = ::umask(0);
  ::umask(umask_now);
  EXPECT_EQ(status.st_mode & 0777, 0666 & ~umask_now);

  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  write_file_atomically(path, bytes_of("two"));
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640U);
}

TEST_F(FileTest, FollowsALink) {
  write_file_atomically(folder_ / "target", bytes_of("old"));
  fs::create_symlink("target", folder_ / "link");
  write_file_atomically(folder_ / "link", bytes_of("new"));
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(read_file(folder_ / "target", 100), bytes_of("new"));
}

// A write that fails midway: the system stops files at 1000 bytes.
TEST_F(FileTest, FailedWriteLeavesTheOldFileAndNothingElse) {
  const auto path = folder_ / "a";
  write_file_atomically(path, bytes_of("old"));

  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 1000;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string text = io_error_of([&] { write_file_atomically(path, std::vector<std::byte>(5000)); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);

  EXPECT_NE(text.find(path.string()), std::string::npos) << text;
  EXPECT_NE(text.find("too large"), std::string::npos) << text;
  EXPECT_EQ(read_file(path, 100), bytes_of("old"));
  EXPECT_EQ(file_count(), 1U);
}

TEST_F(FileTest, AFileMadeInPiecesAppearsWhenItIsCommittedOrNotAtAll) {
  const fs::path path = folder_ / "pieces";
  write_file_atomically(path, bytes_of("old"));
  {
    AtomicFile abandoned(path);
    ASSERT_EQ(::write(abandoned.descriptor(), "half", 4), 4);
    EXPECT_EQ(file_count(), 2U);
  }
  EXPECT_EQ(read_file(path, 100), bytes_of("old"));
  EXPECT_EQ(file_count(), 1U);

  AtomicFile file(path);
  for (const std::string_view piece : {"first, ", "second"}) {
    ASSERT_EQ(::write(file.descriptor(), piece.data(), piece.size()), static_cast<ssize_t>(piece.size()));
    EXPECT_EQ(read_file(path, 100), bytes_of("old"));
  }
  file.commit();
  EXPECT_EQ(read_file(path, 100), bytes_of("first, second"));
  EXPECT_EQ(file_count(), 1U);
}

TEST_F(FileTest, RefusesToWriteWhereItCannot) {
  EXPECT_NE(io_error_of([&] { write_file_atomically(folder_ / "no" / "a", {}); }).find("No such file"),
            std::string::npos);
  EXPECT_NE(io_error_of([&] { write_file_atomically(folder_, {}); }).find("not a regular file"), std::string::npos);
  EXPECT_NE(io_error_of([&] { write_file_atomically("/dev/full", bytes_of("x")); }).find("not a regular file"),
            std::string::npos);
  for (const fs::path& path : {folder_ / "no" / "a", folder_, folder_ / "", fs::path("/dev/full"), fs::path()})
    EXPECT_FALSE(io_error_of([&] { require_writable(path); }).empty()) << path;
  EXPECT_EQ(file_count(), 0U);
}

TEST_F(FileTest, FindsAPathWritableWithoutWriting) {
  require_writable(folder_ / "a");
  EXPECT_EQ(file_count(), 0U);
  write_file_atomically(folder_ / "a", bytes_of("kept"));
  require_writable(folder_ / "a");
  EXPECT_EQ(read_file(folder_ / "a", 10), bytes_of("kept"));
  EXPECT_EQ(file_count(), 1U);
}

TEST_F(FileTest, RefusesToReadWhatIsNoFile) {
  EXPECT_NE(io_error_of([&] { (void)read_file(folder_ / "none", 10); }).find("No such file"), std::string::npos);
  EXPECT_NE(io_error_of([&] { (void)read_file(folder_, 10); }).find("not a regular file"), std::string::npos);
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_NE(io_error_of([&] { (void)read_file(folder_ / "pipe", 10); }).find("not a regular file"), std::string::npos);
}

TEST_F(FileTest, RefusesToReadMoreThanAllowed) {
  const auto path = folder_ / "a";
  write_file_atomically(path, bytes_of("12345"));
  EXPECT_EQ(read_file(path, 5).size(), 5U);
  const std::string text = io_error_of([&] { (void)read_file(path, 4); });
  EXPECT_NE(text.find("5 bytes"), std::string::npos) << text;
}

}  // namespace
}  // namespace podaq
