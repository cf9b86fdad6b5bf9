#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "podaq/core/error.h"
#include "podaq/core/version.h"

namespace podaq::cli {

/// Parses the command line and runs the verb. Exit codes: 0 done, 1 the work failed, 2 the command line is wrong,
/// 130 cancelled by Ctrl-C.
inline int run_program(CLI::App& app, int argc, char** argv) {
  app.set_version_flag("--version", std::string(version));
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const Error& error) {
    fmt::print(stderr, "{}: {}\n", app.get_name(), error.what());
    return error.code() == ErrorCode::cancelled ? 130 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", app.get_name(), error.what());
    return 1;
  }
}

}  // namespace podaq::cli
