#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace podaq::test {

/// How a command ended.
struct Outcome {
  int exit_code = -1;
  std::string text = {};  ///< Standard output and error, as they come.
};

/// Runs a command line in the shell.
inline Outcome run(const std::string& command) {
  Outcome outcome;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> buffer{};
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) outcome.text += buffer.data();
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  return outcome;
}

}  // namespace podaq::test
