#pragma once

#include <CLI/CLI.hpp>

namespace podaq::cli {

// Each adds its verb to the program; the work runs when the verb is parsed. One file a verb.
void add_inspect(CLI::App& app);
void add_bench(CLI::App& app);
void add_tune(CLI::App& app);

}  // namespace podaq::cli
