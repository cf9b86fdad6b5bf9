#pragma once

#include <CLI/CLI.hpp>

namespace podaq::amc {

/// `amc-data synthesize`: frames from the signal synthesizer into a file.
void add_synthesize(CLI::App& app);

/// `amc-data split`: the rows of a file, dealt out into training, validation and test.
void add_split(CLI::App& app);

/// `amc-data inspect`: what a file holds.
void add_inspect(CLI::App& app);

}  // namespace podaq::amc
