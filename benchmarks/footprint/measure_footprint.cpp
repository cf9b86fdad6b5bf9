// Starts first_result many times, in turn with and without a cache of the decoded model, and prints what footprint.sh
// prints: the median times from start to exit, the most memory that the program says it took, and the sizes of two
// files.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct Start {
  double milliseconds = 0;
  double resident_mib = 0;
};

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 4096> chunk{};
  for (ssize_t count = 0; (count = ::read(descriptor, chunk.data(), chunk.size())) > 0;)
    text.append(chunk.data(), static_cast<std::size_t>(count));
  return text;
}

Start start_once(const std::vector<std::string>& command) {
  std::array<int, 2> pipe_ends{};
  if (::pipe(pipe_ends.data()) != 0) throw std::runtime_error("no pipe can be made");
  posix_spawn_file_actions_t actions{};
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_addclose(&actions, pipe_ends[0]);
  std::vector<std::string> texts = command;
  std::vector<char*> arguments;
  arguments.reserve(texts.size() + 1);
  for (std::string& text : texts) arguments.push_back(text.data());
  arguments.push_back(nullptr);

  const auto before = std::chrono::steady_clock::now();
  pid_t child = 0;
  const int problem = ::posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(pipe_ends[1]);
  const std::string output = problem == 0 ? read_all(pipe_ends[0]) : "";
  ::close(pipe_ends[0]);
  int status = 0;
  if (problem != 0 || ::waitpid(child, &status, 0) != child || status != 0)
    throw std::runtime_error("'" + command[0] + "' failed");
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - before;

  long kib = 0;
  if (std::sscanf(output.c_str(), "VmHWM: %ld kB", &kib) != 1)
    throw std::runtime_error("'" + command[0] + "' does not say how much memory it took");
  return {.milliseconds = elapsed.count(), .resident_mib = static_cast<double>(kib) / 1024};
}

// Starts of one command line.
struct Series {
  std::vector<std::string> command;
  std::vector<double> milliseconds;
  double most_resident_mib = 0;

  void start() {
    const Start start = start_once(command);
    milliseconds.push_back(start.milliseconds);
    most_resident_mib = std::max(most_resident_mib, start.resident_mib);
  }
  [[nodiscard]] double median() const {
    std::vector<double> times = milliseconds;
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    return *middle;
  }
};

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 4) {
    std::fputs("usage: measure_footprint PROGRAM MODEL LIBRARY STARTS\n", stderr);
    return 2;
  }
  const std::string& program = arguments[0];
  const std::string& model = arguments[1];
  const std::string& library = arguments[2];
  const int starts = std::atoi(arguments[3].c_str());
  if (starts < 1) throw std::runtime_error("STARTS is '" + arguments[3] + "'; it must be at least 1");
  Series cached{.command = {program, "--cached", model}, .milliseconds = {}};
  Series uncached{.command = {program, model}, .milliseconds = {}};
  static_cast<void>(
      start_once(cached.command));  // Writes the cache, if the model gets one, and brings the files into memory.
  for (int i = 0; i < starts; ++i) {
    cached.start();
    uncached.start();
  }
  std::printf(
      "{\"start_ms\": %.2f, \"rss_mib\": %.2f, \"model_bytes\": %ju, \"library_bytes\": %ju, "
      "\"start_uncached_ms\": %.2f}\n",
      cached.median(), std::max(cached.most_resident_mib, uncached.most_resident_mib),
      std::filesystem::file_size(model), std::filesystem::file_size(library), uncached.median());
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  return run(std::vector<std::string>(argv + 1, argv + argc));
} catch (const std::exception& error) {
  std::fprintf(stderr, "measure_footprint: %s\n", error.what());
  return 1;
}
