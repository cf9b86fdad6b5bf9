#pragma once

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "cli/run_program.h"
#include "podaq/core/atomic_file.h"
#include "podaq/core/progress.h"
#include "podaq/study/comparison.h"
#include "podaq/study/study_file.h"
#include "podaq/study/study_report.h"

namespace podaq::cli {

/// Adds `--threads`.
inline void add_threads_option(CLI::App& verb, int& threads) {
  verb.add_option("--threads", threads, "Threads; 0: as many as the machine has")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

/// Adds the options of every training to `verb`: seed and threads.
inline void add_training_options(CLI::App& verb, ComparisonOptions& options) {
  verb.add_option("--seed", options.seed, "Seed of data, weights and order")
      ->check(seed_validator())
      ->capture_default_str();
  add_threads_option(verb, options.threads);
}

/// Adds the options of every example's comparison to `verb`: seed, threads, output folder.
inline void add_comparison_options(CLI::App& verb, ComparisonOptions& options) {
  add_training_options(verb, options);
  verb.add_option("--out", options.folder, "Folder for the table (JSON) and the .podaq files")->default_str("results");
}

/// Compares the task's strategies, prints the table and writes it as JSON to the output folder.
inline void run_comparison(const Task& task, const ComparisonOptions& options) {
  const std::filesystem::path json = options.folder / (task.name + ".json");
  std::filesystem::create_directories(options.folder);
  require_writable(json);
  const Comparison comparison = compare_strategies(task, options);
  write_json(comparison, json);
  std::fputs(format_table(comparison).c_str(), stdout);
}

/// Prints what a study will train, and how long that takes by what is trained already.
inline void print_plan(const Study& study, const StudyOptions& options) {
  double seconds = 0;
  double epochs = 0;
  double epochs_ahead = 0;
  fmt::print("{:<40} {:>10} {:>7} {:>8}\n", "network", "seed", "epochs", "trained");
  for (const PlannedPoint& point : plan_study(study)) {
    fmt::print("{:<40} {:>10} {:>7} {:>8}\n", point.strategy, point.seed, point.epochs,
               point.done ? "done" : fmt::format("{}", point.trained_epochs));
    if (point.seconds > 0) seconds += point.seconds, epochs += static_cast<double>(point.epochs);
    epochs_ahead += static_cast<double>(point.epochs - point.trained_epochs);
  }
  const double threads = effective_threads(options);
  fmt::print("\n{} epochs ahead on {} threads: {}\n", epochs_ahead, threads,
             epochs > 0
                 ? "about " + format_duration(std::chrono::duration<double>(seconds / epochs * epochs_ahead / threads))
                 : "how long they take shows once the first network is trained");
}

/// What `study` was told.
struct StudyVerb {
  std::filesystem::path file;
  std::filesystem::path folder = {};
  bool only_plan = false;
  bool plots = true;
  StudyOptions options = {};
};

/// Runs the study in the file, prints the table and writes study.json and study.html to its folder.
inline void run_study_file(const StudyVerb& verb, const std::string& program,
                           const std::function<Task(const TaskWords&)>& make_task) {
  Study study = load_study(verb.file, make_task);
  if (!verb.folder.empty()) study.folder = verb.folder;
  if (verb.only_plan) return print_plan(study, verb.options);
  const ReportOptions report{.command = program + " study " + verb.file.string(), .plots = verb.plots};
  require_report_tools(report);
  const StudyResult result = run_study(study, verb.options);
  const std::string json = to_json(result, report.command);
  write_file_atomically(study.folder / "study.json", std::as_bytes(std::span(json)));
  const std::string html = to_html(result, report);
  write_file_atomically(study.folder / "study.html", std::as_bytes(std::span(html)));
  std::fputs(format_table(result).c_str(), stdout);
}

/// Adds the verb `study`. `make_task` makes the program's task from a study file's [task].
inline void add_study(CLI::App& app, std::function<Task(const TaskWords&)> make_task) {
  CLI::App* verb = app.add_subcommand(
      "study", "Train every strategy and seed that a study file names; can be stopped and goes on when run again");
  auto options = std::make_shared<StudyVerb>();
  verb->add_option("file", options->file, "The study (TOML)")->required();
  verb->add_option("--out", options->folder, "Folder for all results, in place of the study's own");
  verb->add_flag("--points", options->only_plan, "Only list what would be trained");
  verb->add_flag("!--no-plots", options->plots, "Make the report without plots, which need gnuplot");
  verb->add_flag("--time-again", options->options.time_again, "Take all latencies anew, for a quieter machine");
  add_threads_option(*verb, options->options.threads);
  verb->callback(
      [&app, options, make_task = std::move(make_task)] { run_study_file(*options, app.get_name(), make_task); });
}

}  // namespace podaq::cli
