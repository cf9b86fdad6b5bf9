#pragma once

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "cli/run_program.h"
#include "podaq/core/atomic_file.h"
#include "podaq/study/comparison.h"

namespace podaq::cli {

/// Adds the options of every training to `verb`: seed and threads.
inline void add_training_options(CLI::App& verb, ComparisonOptions& options) {
  verb.add_option("--seed", options.seed, "Seed of data, weights and order")
      ->check(seed_validator())
      ->capture_default_str();
  verb.add_option("--threads", options.threads, "Threads; 0: as many as the machine has")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

/// Adds the options of every example's study to `verb`: seed, threads, output folder.
inline void add_study_options(CLI::App& verb, ComparisonOptions& options) {
  add_training_options(verb, options);
  verb.add_option("--out", options.folder, "Folder for the table (JSON) and the .podaq files")->default_str("results");
}

/// Compares the task's strategies, prints the table and writes it as JSON to the output folder.
inline void run_study(const Task& task, const ComparisonOptions& options) {
  const std::filesystem::path json = options.folder / (task.name + ".json");
  std::filesystem::create_directories(options.folder);
  require_writable(json);
  const Comparison comparison = compare_strategies(task, options);
  write_json(comparison, json);
  std::fputs(format_table(comparison).c_str(), stdout);
}

}  // namespace podaq::cli
