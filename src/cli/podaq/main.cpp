#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "cli/podaq/verbs.h"
#include "cli/run_program.h"

namespace {

/// The verbs that need LibTorch live in podaq-train, which stands beside this program where it is installed.
void forward_to_podaq_train(const std::string& verb, const std::vector<std::string>& arguments) {
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "podaq-train";
  if (!std::filesystem::exists(program))
    throw podaq::Error(podaq::ErrorCode::unsupported,
                       fmt::format("'{}' trains and needs LibTorch: it is a verb of podaq-train, which is not "
                                   "installed beside this program ({})",
                                   verb, program.string()));
  std::vector<std::string> words = {program.string(), verb};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execv(program.c_str(), pointers.data());
  throw std::system_error(errno, std::generic_category(), program.string());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Looks at and runs .podaq files: pruned and quantized networks.", "podaq");
  app.require_subcommand(1);
  podaq::cli::add_inspect(app);
  podaq::cli::add_bench(app);
  podaq::cli::add_tune(app);

  CLI::App* compress = app.add_subcommand("compress", "Train a shipped example with a recipe (runs podaq-train)");
  compress->prefix_command();
  compress->set_help_flag();
  compress->callback([compress] { forward_to_podaq_train("compress", compress->remaining()); });
  return podaq::cli::run_program(app, argc, argv);
}
