#include "amc/synthesis/synthesizer.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <numbers>
#include <set>
#include <thread>

#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "podaq/data/iq_frame.h"

namespace podaq::amc {

namespace {

constexpr int longest_frame = 1 << 20;

[[noreturn]] void refuse(std::string_view field, std::int64_t value, std::string_view range) {
  throw Error(ErrorCode::invalid_argument, concat("SynthesisOptions.", field, " is ", value, "; it must be ", range));
}

int checked_length(int frame_length) {
  if (frame_length < 1 || frame_length > longest_frame) refuse("frame_length", frame_length, "in [1, 2^20]");
  return frame_length;
}

const Impairments& checked(const Impairments& impairments) {
  validate(impairments);
  return impairments;
}

void validate(const SynthesisOptions& options) {
  checked_length(options.frame_length);
  validate(options.impairments);
  std::set<int> seen;
  for (const int snr : options.snrs_db) {
    if (snr < -200 || snr > 200) refuse("snrs_db", snr, "in [-200, 200]");
    if (!seen.insert(snr).second) refuse("snrs_db", snr, "given once only");
  }
  if (options.frames_per_cell < 0) refuse("frames_per_cell", options.frames_per_cell, "0 or more");
  if (options.threads < 0 || options.threads > 1024) refuse("threads", options.threads, "in [0, 1024]");
}

float mean_power(std::span<const std::complex<float>> signal) {
  double sum = 0;
  for (const auto& sample : signal) sum += std::norm(sample);
  return static_cast<float>(sum / static_cast<double>(signal.size()));
}

/// The rows of a data set, handed out to threads a batch at a time.
class RowQueue {
 public:
  explicit RowQueue(std::int64_t rows) : rows_(rows) {}

  /// Calls `make(row)` for rows that no other thread has taken, until none is left, and `tell(done)` after each batch.
  template <typename Make, typename Tell>
  void work(const Make& make, const Tell& tell) {
    constexpr std::int64_t batch = 64;
    while (true) {
      const auto begin = next_.fetch_add(batch);
      if (begin >= rows_) return;
      const auto end = std::min(begin + batch, rows_);
      for (auto row = begin; row < end; ++row) make(row);
      tell(done_.fetch_add(end - begin) + end - begin);
    }
  }

  /// Lets every thread end after its current batch.
  void stop() { next_.store(rows_); }

 private:
  std::int64_t rows_;
  std::atomic<std::int64_t> next_ = 0;
  std::atomic<std::int64_t> done_ = 0;
};

}  // namespace

Synthesizer::Synthesizer(const Impairments& impairments, int frame_length)
    : impairments_(checked(impairments)),
      channel_(impairments, checked_length(frame_length)),
      transmitted_(static_cast<std::size_t>(channel_.input_length())),
      received_(static_cast<std::size_t>(frame_length)) {}

Modulator& Synthesizer::modulator(Modulation modulation) {
  return modulators_.try_emplace(modulation, modulation, impairments_).first->second;
}

void Synthesizer::signal(const FrameKey& key, std::span<std::complex<float>> out) {
  auto random = key.random(Purpose::signal);
  const auto samples_per_symbol = static_cast<std::uint32_t>(impairments_.pulse.samples_per_symbol);
  const int start = impairments_.random_start ? static_cast<int>(random.below(samples_per_symbol)) : 0;
  modulator(key.modulation).generate(random, start, transmitted_);
  channel_.apply(key, transmitted_, out);
}

void Synthesizer::frame(const FrameKey& key, std::span<float> out) {
  signal(key, received_);
  auto random = key.random(Purpose::noise);
  const float noise_power = mean_power(received_) * std::pow(10.0F, -static_cast<float>(key.snr_db) / 10.0F);
  const float noise_scale = std::sqrt(noise_power / 2);
  for (auto& sample : received_) {
    const auto noise = random.gaussian_pair();
    sample += std::complex(noise_scale * noise[0], noise_scale * noise[1]);
  }
  unbalance(key);
  const auto length = received_.size();
  for (std::size_t i = 0; i < length; ++i) {
    out[i] = received_[i].real();
    out[length + i] = received_[i].imag();
  }
  scale_to_unit_power(out.first(2 * length));
}

void Synthesizer::unbalance(const FrameKey& key) {
  const auto& imbalance = impairments_.iq_imbalance;
  if (imbalance.amplitude_db == 0 && imbalance.phase_degrees == 0) return;
  auto random = key.random(Purpose::iq_imbalance);
  const double amplitude_db = imbalance.amplitude_db * (2.0 * random.uniform() - 1);
  const double half_angle = imbalance.phase_degrees * (2.0 * random.uniform() - 1) / 2 * std::numbers::pi / 180;
  const auto gain = static_cast<float>(std::pow(10.0, amplitude_db / 40));
  const auto own = static_cast<float>(std::cos(half_angle));
  const auto other = static_cast<float>(std::sin(half_angle));
  for (auto& sample : received_) {
    const float real = sample.real();
    const float imaginary = sample.imag();
    sample = {gain * (own * real - other * imaginary), (own * imaginary - other * real) / gain};
  }
}

SynthesisOptions standard_options(ClassSet set, int frames_per_cell, std::uint64_t seed,
                                  const Impairments& impairments) {
  return {.set = set,
          .frame_length = frame_length(set),
          .snrs_db = snr_grid(set),
          .frames_per_cell = frames_per_cell,
          .seed = seed,
          .impairments = impairments};
}

DatasetSynthesizer::DatasetSynthesizer(const SynthesisOptions& options) : options_(options) {
  validate(options);
  const int threads =
      options.threads > 0 ? options.threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  for (int thread = 0; thread < threads; ++thread)
    synthesizers_.emplace_back(options.impairments, options.frame_length);
}

std::int64_t DatasetSynthesizer::size() const noexcept {
  return static_cast<std::int64_t>(classes(options_.set).size()) * static_cast<std::int64_t>(options_.snrs_db.size()) *
         options_.frames_per_cell;
}

void DatasetSynthesizer::make(std::int64_t first, std::span<float> frames, std::span<std::int32_t> labels,
                              std::span<std::int32_t> snrs_db, const SynthesisProgress& progress) {
  const auto modulations = classes(options_.set);
  const auto snrs = static_cast<std::int64_t>(options_.snrs_db.size());
  const auto frame_size = static_cast<std::size_t>(options_.frame_length) * 2;
  const auto count = static_cast<std::int64_t>(labels.size());
  RowQueue queue(count);
  const auto work = [&](Synthesizer& synthesizer, const auto& tell) {
    const auto make_row = [&](std::int64_t position) {
      const auto row = first + position;
      const auto cell = row / options_.frames_per_cell;
      const auto label = static_cast<std::size_t>(cell / snrs);
      const FrameKey key{.seed = options_.seed,
                         .modulation = modulations[label].modulation,
                         .snr_db = options_.snrs_db[static_cast<std::size_t>(cell % snrs)],
                         .index = static_cast<std::uint32_t>(row % options_.frames_per_cell)};
      const auto place = static_cast<std::size_t>(position);
      labels[place] = static_cast<std::int32_t>(label);
      snrs_db[place] = key.snr_db;
      synthesizer.frame(key, frames.subspan(place * frame_size, frame_size));
    };
    queue.work(make_row, tell);
  };

  std::vector<std::exception_ptr> failures(synthesizers_.size());
  const auto guarded = [&](std::size_t thread, const auto& tell) {
    try {
      work(synthesizers_[thread], tell);
    } catch (...) {
      failures[thread] = std::current_exception();
      queue.stop();
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (std::size_t thread = 1; thread < synthesizers_.size(); ++thread) {
      helpers.emplace_back([&, thread] { guarded(thread, [](std::int64_t) {}); });
    }
    guarded(0, [&](std::int64_t done) {
      if (progress && done < count) progress(first + done, size());
    });
  }
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  if (progress) progress(first + count, size());
}

Dataset synthesize(const SynthesisOptions& options, const SynthesisProgress& progress) {
  DatasetSynthesizer synthesizer(options);
  const auto rows = static_cast<std::size_t>(synthesizer.size());
  Dataset dataset{.sample_shape = {2, options.frame_length}};
  for (const auto& named : classes(options.set)) dataset.class_names.emplace_back(named.name);
  dataset.samples.resize(rows * static_cast<std::size_t>(options.frame_length) * 2);
  dataset.labels.resize(rows);
  dataset.groups.resize(rows);
  synthesizer.make(0, dataset.samples, dataset.labels, dataset.groups, progress);
  return dataset;
}

}  // namespace podaq::amc
