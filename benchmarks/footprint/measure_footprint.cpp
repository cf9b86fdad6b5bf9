// Starts a program many times and prints what footprint.sh prints: the median time from fork to exit, the most memory
// that the program says it took, and the sizes of two files.
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

Start start_once(const std::string& program, const std::string& model) {
  std::array<int, 2> pipe_ends{};
  if (::pipe(pipe_ends.data()) != 0) throw std::runtime_error("no pipe can be made");
  posix_spawn_file_actions_t actions{};
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_addclose(&actions, pipe_ends[0]);
  std::string program_text = program;
  std::string model_text = model;
  std::array<char*, 3> arguments = {program_text.data(), model_text.data(), nullptr};

  const auto before = std::chrono::steady_clock::now();
  pid_t child = 0;
  const int problem = ::posix_spawn(&child, program.c_str(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(pipe_ends[1]);
  const std::string output = problem == 0 ? read_all(pipe_ends[0]) : "";
  ::close(pipe_ends[0]);
  int status = 0;
  if (problem != 0 || ::waitpid(child, &status, 0) != child || status != 0)
    throw std::runtime_error("'" + program + " " + model + "' failed");
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - before;

  long kib = 0;
  if (std::sscanf(output.c_str(), "VmHWM: %ld kB", &kib) != 1)
    throw std::runtime_error("'" + program + "' does not say how much memory it took");
  return {.milliseconds = elapsed.count(), .resident_mib = static_cast<double>(kib) / 1024};
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 4) {
    std::fputs("usage: measure_footprint PROGRAM MODEL LIBRARY STARTS\n", stderr);
    return 2;
  }
  const int starts = std::atoi(arguments[3].c_str());
  if (starts < 1) throw std::runtime_error("STARTS is '" + arguments[3] + "'; it must be at least 1");
  static_cast<void>(start_once(arguments[0], arguments[1]));  // Brings the files into memory.
  std::vector<double> times;
  double resident_mib = 0;
  for (int i = 0; i < starts; ++i) {
    const Start start = start_once(arguments[0], arguments[1]);
    times.push_back(start.milliseconds);
    resident_mib = std::max(resident_mib, start.resident_mib);
  }
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  std::printf("{\"start_ms\": %.2f, \"rss_mib\": %.2f, \"model_bytes\": %ju, \"library_bytes\": %ju}\n", *middle,
              resident_mib, std::filesystem::file_size(arguments[1]), std::filesystem::file_size(arguments[2]));
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  return run(std::vector<std::string>(argv + 1, argv + argc));
} catch (const std::exception& error) {
  std::fprintf(stderr, "measure_footprint: %s\n", error.what());
  return 1;
}
