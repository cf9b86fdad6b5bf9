#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "amc/classify/frame_classifier.h"
#include "podaq/data/iq_stream.h"
#include "podaq/data/sigmf.h"

namespace podaq::amc {

/// How often `classify_stream` says something.
enum class ReportEvery : std::uint8_t {
  frame,
  second,  ///< Of the signal, not of the clock.
};

/// What `classify_stream` is told.
struct StreamOptions {
  ReportEvery every = ReportEvery::frame;
  std::optional<double> sample_rate_hz = {};  ///< Positive; needed for reports every second.
  const SigMfLabels* labels = nullptr;        ///< To show beside the verdicts; may be null.
};

/// What came through.
struct StreamSummary {
  std::uint64_t frames = 0;           ///< All, invalid ones included.
  std::uint64_t invalid_frames = 0;   ///< Those with a sample or a result that is not finite.
  std::uint64_t dropped_samples = 0;  ///< At ends of captures, too few for a frame.
};

/// Receives a line of JSON, without its end; returns whether more are wanted.
using LineSink = std::function<bool(std::string_view line)>;

/// Cuts the stream into frames that follow one another without a gap, anew in each of its segments, and classifies
/// each. A line for a frame: `{"frame":0,"sample":0,"class":"QPSK","confidence":0.97,"snr_db":null}`, where `sample` is
/// the frame's first in the data, `confidence` the probability of the class, and the SNR is not known; where a label
/// covers the whole frame, "label" too. A frame with NaN or infinity:
/// `{"frame":3,"sample":384,"invalid_sample":389}`, and the work goes on. A line for a second:
/// `{"second":0,"sample":0,"frames":1562,"invalid_frames":0,"class":"QPSK", "confidence":0.9,"snr_db":null}`, the class
/// of the largest mean probability over the frames that begin in it (null where none is valid); `invalid_sample` is its
/// first, where there is one. `summary` is kept up to date, so that it holds also when this throws: what
/// `IqStream::read` throws, with the line of the second so far already given; invalid_argument for reports every second
/// without a sample rate.
void classify_stream(IqStream& stream, FrameClassifier& classifier, const StreamOptions& options, const LineSink& sink,
                     StreamSummary& summary);

}  // namespace podaq::amc
