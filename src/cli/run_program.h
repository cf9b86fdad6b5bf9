#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "podaq/core/error.h"
#include "podaq/core/version.h"

namespace podaq::cli {

/// Throws Error(io) if anything printed to standard output so far is lost: a full disk, a closed pipe.
inline void require_printed() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    throw Error(ErrorCode::io, "standard output could not be written; what it should have shown is lost");
}

/// Accepts whole numbers from 0 to 2^64 - 1 and nothing else.
inline CLI::Validator seed_validator() {
  return {[](const std::string& word) {
            std::uint64_t value = 0;
            const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
            const bool fits = error == std::errc() && end == word.data() + word.size();
            return fits ? std::string() : "'" + word + "' is no whole number from 0 to 18446744073709551615";
          },
          "SEED"};
}

/// Accepts numbers from `lowest` to `highest`; not NaN, which CLI::Range lets pass.
inline CLI::Validator number_between(double lowest, double highest) {
  return {[lowest, highest](const std::string& word) {
            char* end = nullptr;
            const double value = std::strtod(word.c_str(), &end);
            const bool fits = !word.empty() && *end == '\0' && value >= lowest && value <= highest;
            return fits ? std::string() : fmt::format("'{}' is no number from {} to {}", word, lowest, highest);
          },
          fmt::format("NUMBER in [{} - {}]", lowest, highest)};
}

/// Shows an error; silently nothing where standard error is lost too, since the exit code still tells.
inline void print_error(const CLI::App& app, const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), error.what());
}

/// Parses the command line and runs the verb. Exit codes: 0 done, 1 the work failed, 2 the command line is wrong,
/// 130 cancelled by Ctrl-C.
inline int run_program(CLI::App& app, int argc, char** argv) {
  app.set_version_flag("--version", std::string(version));
  try {
    app.parse(argc, argv);
    require_printed();
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const Error& error) {
    print_error(app, error);
    return error.code() == ErrorCode::cancelled ? 130 : 1;
  } catch (const std::exception& error) {
    print_error(app, error);
    return 1;
  }
}

}  // namespace podaq::cli
