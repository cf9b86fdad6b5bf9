#pragma once

#include <CLI/CLI.hpp>

namespace podaq::cli {

// Each adds its verb to the program; the work runs when the verb is parsed. One file a verb.
void add_compress(CLI::App& app);

}  // namespace podaq::cli
