#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "amc/classify/frame_classifier.h"
#include "amc/classify/stream_classification.h"
#include "cli/run_program.h"
#include "podaq/core/cancellation.h"
#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "podaq/data/iq_stream.h"
#include "podaq/data/sigmf.h"

namespace {

using podaq::amc::ReportEvery;

struct Options {
  std::filesystem::path model;
  std::string input;
  std::string every = "frame";
  std::string format;
  std::uint64_t skip_bytes = 0;
  int channels = 1;
  int channel = 0;
  double sample_rate_hz = 0;
};

/// What the command line names, opened.
struct Input {
  podaq::IqStream stream;
  std::optional<double> sample_rate_hz = {};
  std::optional<podaq::SigMfLabels> labels = {};
};

[[noreturn]] void refuse(const std::string& text) {
  throw podaq::Error(podaq::ErrorCode::invalid_argument, text);
}

Input open_recording(const Options& options, const CLI::App& app) {
  for (const char* option : {"--format", "--skip", "--channels"})
    if (app.count(option) > 0) refuse(podaq::concat(option, " is for raw samples; a SigMF recording tells it itself"));
  auto files = podaq::load_sigmf(std::filesystem::path(options.input).replace_extension(".sigmf-meta"));
  podaq::IqStream stream(files.data, layout_of(files.recording, options.channel));
  return {.stream = std::move(stream),
          .sample_rate_hz = files.recording.sample_rate_hz,
          .labels = podaq::SigMfLabels(files.recording)};
}

/// The format that the name of a raw file tells; empty if it tells none.
std::string_view format_of_extension(const std::string& extension) {
  struct Known {
    std::string_view extension, format;
  };
  constexpr std::array known = {Known{".cf32", "cf32_le"}, Known{".fc32", "cf32_le"}, Known{".cfile", "cf32_le"},
                                Known{".cf64", "cf64_le"}, Known{".ci16", "ci16_le"}, Known{".cs16", "ci16_le"},
                                Known{".sc16", "ci16_le"}, Known{".ci8", "ci8"},      Known{".cs8", "ci8"},
                                Known{".cu8", "cu8"}};
  for (const Known& entry : known)
    if (extension == entry.extension) return entry.format;
  return "";
}

Input open_raw(const Options& options) {
  const bool standard_input = options.input == "-";
  std::string format = options.format;
  if (format.empty())
    format = standard_input ? "cf32_le" : format_of_extension(std::filesystem::path(options.input).extension());
  if (format.empty())
    refuse(podaq::concat("'", options.input, "': its name does not tell how samples are stored; give --format"));
  const podaq::IqLayout layout{.format = podaq::parse_iq_format(format, "--format"),
                               .channels = options.channels,
                               .channel = options.channel,
                               .segments = {{.header_bytes = options.skip_bytes}}};
  if (standard_input) return {.stream = podaq::IqStream(STDIN_FILENO, "standard input", layout)};
  return {.stream = podaq::IqStream(options.input, layout)};
}

Input open_input(const Options& options, const CLI::App& app) {
  const std::string extension = std::filesystem::path(options.input).extension();
  if (extension == ".sigmf")
    throw podaq::Error(
        podaq::ErrorCode::unsupported,
        podaq::concat("'", options.input, "' is a SigMF archive; unpack it (tar) and give the .sigmf-meta"));
  const bool sigmf = extension == ".sigmf-meta" || extension == ".sigmf-data";
  Input input = sigmf ? open_recording(options, app) : open_raw(options);
  if (options.sample_rate_hz > 0) input.sample_rate_hz = options.sample_rate_hz;
  return input;
}

/// Standard output, line by line. Whoever reads it may stop reading.
class Output {
 public:
  /// False once nobody reads any more.
  bool print(std::string_view line) {
    buffer_.append(line).push_back('\n');
    return buffer_.size() < block_bytes || flush();
  }

  bool flush() {
    std::string_view rest = buffer_;
    while (!rest.empty()) {
      const ssize_t count = ::write(STDOUT_FILENO, rest.data(), rest.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EPIPE) return false;
      if (count < 0)
        throw podaq::Error(podaq::ErrorCode::io,
                           podaq::concat("cannot write to standard output: ", std::strerror(errno)));
      rest.remove_prefix(static_cast<std::size_t>(count));
    }
    buffer_.clear();
    return true;
  }

 private:
  static constexpr std::size_t block_bytes = std::size_t{1} << 16;
  std::string buffer_;
};

void print_summary(const podaq::amc::StreamSummary& summary, std::chrono::duration<double> elapsed) {
  fmt::print(stderr, "{} frames in {:.2f} s: {:.0f} frames/s", summary.frames, elapsed.count(),
             elapsed.count() > 0 ? static_cast<double>(summary.frames) / elapsed.count() : 0.0);
  if (summary.invalid_frames > 0) fmt::print(stderr, "; {} of them invalid", summary.invalid_frames);
  if (summary.dropped_samples > 0)
    fmt::print(stderr, "; {} samples left over, too few for a frame", summary.dropped_samples);
  fmt::print(stderr, "\n");
}

void classify(const Options& options, const CLI::App& app) {
  // A pipe whose reader has gone is told by write.
  ::signal(SIGPIPE, SIG_IGN);
  const podaq::CancellationScope cancellation;
  podaq::amc::FrameClassifier classifier(podaq::Model::load(options.model));
  Input input = open_input(options, app);
  const podaq::amc::StreamOptions stream_options{
      .every = options.every == "second" ? ReportEvery::second : ReportEvery::frame,
      .sample_rate_hz = input.sample_rate_hz,
      .labels = input.labels ? &*input.labels : nullptr};
  Output output;
  // Who listens to a live signal wants each line when it comes.
  const bool live = !std::filesystem::is_regular_file(options.input == "-" ? "/dev/stdin" : options.input);
  podaq::amc::StreamSummary summary;
  const auto begin = std::chrono::steady_clock::now();
  const auto end = [&] {
    output.flush();
    print_summary(summary, std::chrono::steady_clock::now() - begin);
  };
  try {
    classify_stream(
        input.stream, classifier, stream_options,
        [&](std::string_view line) { return output.print(line) && (!live || output.flush()); }, summary);
  } catch (const podaq::Error&) {
    end();
    throw;
  }
  end();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Classifies the modulation of a signal with a .podaq file that amc has written: one line of JSON for each "
      "frame or second, frames/s on standard error.",
      "amc-classify");
  Options options;
  app.add_option("model", options.model, "The .podaq file")->required();
  app.add_option(
         "input", options.input,
         "NAME.sigmf-meta; a raw file of complex samples (.cf32, .cf64, .ci16, .ci8, .cu8, others with --format); "
         "or - for standard input")
      ->required();
  app.add_option("--every", options.every, "What gets a line: frame, or second of the signal")
      ->check(CLI::IsMember({"frame", "second"}))
      ->capture_default_str();
  app.add_option(
      "--format", options.format,
      "How raw samples are stored, as SigMF's core:datatype says it: cf32_le, ci16_be, cu8, ... (default: as the "
      "file's name tells; cf32_le from standard input)");
  app.add_option("--skip", options.skip_bytes, "Bytes before the first raw sample, such as a header")
      ->check(podaq::cli::seed_validator().description(""))
      ->type_name("BYTES")
      ->capture_default_str();
  app.add_option("--channels", options.channels, "Interleaved channels of raw samples")->capture_default_str();
  app.add_option("--channel", options.channel, "Which channel to classify, from 0")->capture_default_str();
  app.add_option("--rate", options.sample_rate_hz,
                 "Sample rate in Hz, for --every second (default: the SigMF recording's)")
      ->check(podaq::cli::number_between(1e-3, 1e12))
      ->type_name("HZ");
  app.callback([&] { classify(options, app); });
  return podaq::cli::run_program(app, argc, argv);
}
