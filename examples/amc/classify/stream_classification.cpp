#include "amc/classify/stream_classification.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "podaq/core/cancellation.h"
#include "podaq/core/error.h"
#include "podaq/data/iq_frame.h"

namespace podaq::amc {
namespace {

using Json = nlohmann::ordered_json;

/// One frame and what became of it.
struct Verdict {
  std::uint64_t frame = 0;
  std::uint64_t first_sample = 0;
  std::optional<std::uint64_t> invalid_sample = {};
  std::span<const double> probabilities = {};  ///< Empty where a sample is invalid.
};

std::string text_of(const Json& line) {
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void add_class(Json& line, const FrameClassifier& classifier, std::span<const double> probabilities) {
  const auto best = std::ranges::max_element(probabilities);
  line["class"] = classifier.class_names()[static_cast<std::size_t>(best - probabilities.begin())];
  line["confidence"] = *best;
}

std::string frame_line(const Verdict& verdict, const FrameClassifier& classifier, const StreamOptions& options) {
  Json line = {{"frame", verdict.frame}, {"sample", verdict.first_sample}};
  if (verdict.invalid_sample) {
    line["invalid_sample"] = *verdict.invalid_sample;
    return text_of(line);
  }
  add_class(line, classifier, verdict.probabilities);
  line["snr_db"] = nullptr;
  if (options.labels != nullptr) {
    const auto label = options.labels->covering(verdict.first_sample, classifier.frame_length());
    if (!label.empty()) line["label"] = label;
  }
  return text_of(line);
}

/// The frames of one second.
struct Second {
  std::uint64_t number = 0;
  std::uint64_t first_sample = 0;
  std::uint64_t frames = 0;
  std::uint64_t invalid_frames = 0;
  std::optional<std::uint64_t> invalid_sample = {};
  std::vector<double> sums = {};  ///< Of the probabilities.
};

void add_to(Second& second, const Verdict& verdict) {
  if (second.frames++ == 0) second.first_sample = verdict.first_sample;
  if (verdict.invalid_sample) {
    ++second.invalid_frames;
    if (!second.invalid_sample) second.invalid_sample = verdict.invalid_sample;
    return;
  }
  second.sums.resize(verdict.probabilities.size());
  for (std::size_t i = 0; i < second.sums.size(); ++i) second.sums[i] += verdict.probabilities[i];
}

std::string second_line(const Second& second, const FrameClassifier& classifier) {
  Json line = {{"second", second.number},
               {"sample", second.first_sample},
               {"frames", second.frames},
               {"invalid_frames", second.invalid_frames}};
  if (second.invalid_sample) line["invalid_sample"] = *second.invalid_sample;
  const std::uint64_t valid = second.frames - second.invalid_frames;
  if (valid == 0) {
    line["class"] = nullptr;
    line["confidence"] = nullptr;
  } else {
    std::vector<double> means = second.sums;
    for (double& mean : means) mean /= static_cast<double>(valid);
    add_class(line, classifier, means);
  }
  line["snr_db"] = nullptr;
  return text_of(line);
}

/// Turns verdicts into lines.
class Reporter {
 public:
  Reporter(const FrameClassifier& classifier, const StreamOptions& options, const LineSink& sink)
      : classifier_(classifier), options_(options), sink_(sink) {}

  /// Whether more is wanted.
  bool add(const Verdict& verdict) {
    if (options_.every == ReportEvery::frame) return sink_(frame_line(verdict, classifier_, options_));
    const auto number =
        static_cast<std::uint64_t>(static_cast<double>(verdict.first_sample) / *options_.sample_rate_hz);
    bool wanted = true;
    if (second_.frames > 0 && number != second_.number) wanted = finish();
    if (second_.frames == 0) second_.number = number;
    add_to(second_, verdict);
    return wanted;
  }

  /// Gives what was held back.
  bool finish() {
    if (second_.frames == 0) return true;
    const std::string line = second_line(second_, classifier_);
    second_ = {};
    return sink_(line);
  }

 private:
  const FrameClassifier& classifier_;
  const StreamOptions& options_;
  const LineSink& sink_;
  Second second_;
};

/// Splits complex samples into all in-phase, then all quadrature parts.
void to_frame(std::span<const std::complex<float>> samples, std::span<float> frame) {
  for (std::size_t i = 0; i < samples.size(); ++i) {
    frame[i] = samples[i].real();
    frame[samples.size() + i] = samples[i].imag();
  }
}

Verdict judge(FrameClassifier& classifier, std::span<float> frame, std::uint64_t number, std::uint64_t first_sample) {
  Verdict verdict{.frame = number, .first_sample = first_sample};
  if (const auto bad = first_not_finite(frame)) {
    verdict.invalid_sample = first_sample + *bad;
    return verdict;
  }
  verdict.probabilities = classifier.classify(frame);
  const bool finite = std::ranges::all_of(verdict.probabilities, [](double value) { return std::isfinite(value); });
  if (!finite) verdict.invalid_sample = first_sample;
  return verdict;
}

bool classify_segment(IqStream& stream, FrameClassifier& classifier, Reporter& reporter, StreamSummary& summary) {
  std::vector<std::complex<float>> samples(classifier.frame_length());
  std::vector<float> frame(2 * samples.size());
  while (true) {
    throw_if_cancelled();
    const std::uint64_t first_sample = stream.position();
    const std::size_t count = stream.read(samples);
    if (count < samples.size()) {
      summary.dropped_samples += count;
      return true;
    }
    to_frame(samples, frame);
    const Verdict verdict = judge(classifier, frame, summary.frames, first_sample);
    ++summary.frames;
    if (verdict.invalid_sample) ++summary.invalid_frames;
    if (!reporter.add(verdict)) return false;
  }
}

}  // namespace

void classify_stream(IqStream& stream, FrameClassifier& classifier, const StreamOptions& options, const LineSink& sink,
                     StreamSummary& summary) {
  if (options.every == ReportEvery::second && !(options.sample_rate_hz && *options.sample_rate_hz > 0))
    throw Error(ErrorCode::invalid_argument,
                "reports every second need the sample rate, which the input does not tell");
  Reporter reporter(classifier, options, sink);
  try {
    do {
      if (!classify_segment(stream, classifier, reporter, summary)) return;
    } while (stream.next_segment());
  } catch (const Error&) {
    reporter.finish();
    throw;
  }
  reporter.finish();
}

}  // namespace podaq::amc
