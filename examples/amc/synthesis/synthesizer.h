#pragma once

#include <complex>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "amc/synthesis/channel.h"
#include "amc/synthesis/frame_key.h"
#include "amc/synthesis/impairments.h"
#include "amc/synthesis/modulation.h"
#include "amc/synthesis/modulator.h"
#include "podaq/data/dataset.h"

namespace podaq::amc {

/// Makes single frames. A frame is a function of its key, the impairments and the length alone, whatever was made
/// before it. Not to be shared between threads; one each.
class Synthesizer {
 public:
  /// Throws `Error` (invalid_argument) if the impairments are invalid or `frame_length` is outside [1, 2^20].
  Synthesizer(const Impairments& impairments, int frame_length);

  /// The received signal before noise and normalization, `frame_length` samples.
  void signal(const FrameKey& key, std::span<std::complex<float>> out);

  /// One frame as a network sees it: 2 × frame_length floats, first all in-phase, then all quadrature samples.
  /// White complex Gaussian noise is added to the received signal so that, in the whole band of the sampler, signal
  /// power over noise power is 10^(snr_db/10), with the signal's power measured over this frame (so Es/N0 is higher by
  /// the samples per symbol); then the receiver's branches are unbalanced and the frame is scaled to a mean power |x|²
  /// of 1.
  void frame(const FrameKey& key, std::span<float> out);

 private:
  Modulator& modulator(Modulation modulation);
  void unbalance(const FrameKey& key);

  Impairments impairments_;
  Channel channel_;
  std::map<Modulation, Modulator> modulators_;
  std::vector<std::complex<float>> transmitted_;
  std::vector<std::complex<float>> received_;
};

/// A whole data set to synthesize.
struct SynthesisOptions {
  ClassSet set = ClassSet::radioml2016;
  int frame_length = 128;         ///< Complex samples per frame, 1 to 2^20.
  std::vector<int> snrs_db = {};  ///< Signal-to-noise ratios, each in [−200, 200], none twice.
  int frames_per_cell = 0;        ///< Frames for each pair of class and SNR, at least 0.
  std::uint64_t seed = 0;         ///< Training, validation and test sets take different seeds.
  Impairments impairments = {};
  int threads = 0;  ///< 0: one for each processor. The result does not depend on it.
};

/// The frame length and SNR grid of a RadioML set, everything else as given.
[[nodiscard]] SynthesisOptions standard_options(ClassSet set, int frames_per_cell, std::uint64_t seed,
                                                const Impairments& impairments);

/// Called on the caller's thread with the frames done and all frames: now and then, and once in the end with both
/// equal. It may throw to stop the work.
using SynthesisProgress = std::function<void(std::int64_t done, std::int64_t total)>;

/// Makes the rows of a data set, a block at a time, with several threads. Row r is frame r % frames_per_cell of SNR
/// (r / frames_per_cell) % snrs_db.size() of class r / frames_per_cell / snrs_db.size(), as in RadioML 2018.01A, and
/// equals `Synthesizer::frame` for that key. Not to be shared between threads.
class DatasetSynthesizer {
 public:
  /// Throws `Error` (invalid_argument) if an option is outside its range.
  explicit DatasetSynthesizer(const SynthesisOptions& options);

  /// Rows in all.
  [[nodiscard]] std::int64_t size() const noexcept;

  /// Makes rows [first, first + labels.size()), which must lie in [0, size()): each a frame of 2 × frame_length floats,
  /// its class number and its SNR in dB. Told of each step, `progress` counts from the first row of the data set.
  void make(std::int64_t first, std::span<float> frames, std::span<std::int32_t> labels,
            std::span<std::int32_t> snrs_db, const SynthesisProgress& progress = {});

 private:
  SynthesisOptions options_;
  std::vector<Synthesizer> synthesizers_;  ///< One for each thread.
};

/// Synthesizes labelled frames of shape {2, frame_length}, in memory, in the order of `DatasetSynthesizer`; `groups`
/// holds the SNR in dB. Throws `Error` (invalid_argument) if an option is outside its range.
[[nodiscard]] Dataset synthesize(const SynthesisOptions& options, const SynthesisProgress& progress = {});

}  // namespace podaq::amc
