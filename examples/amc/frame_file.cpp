#include "amc/frame_file.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "podaq/core/cancellation.h"
#include "podaq/core/error.h"
#include "podaq/core/progress.h"
#include "podaq/core/sha256.h"
#include "podaq/core/text.h"
#include "podaq/data/split_file.h"

namespace podaq::amc {
namespace {

constexpr double bytes_per_gib = 1024.0 * 1024.0 * 1024.0;

FrameFileOptions checked(FrameFileOptions options) {
  if (options.frames_per_cell < 0)
    throw Error(ErrorCode::invalid_argument,
                concat("FrameFileOptions.frames_per_cell is ", options.frames_per_cell, "; it must be 0 or more"));
  if (!(options.memory_gib > 0 && options.memory_gib <= 65536))
    throw Error(ErrorCode::invalid_argument,
                concat("FrameFileOptions.memory_gib is ", options.memory_gib, "; it must be in (0, 65536]"));
  return options;
}

Strata strata_of(const RadioMlReader& reader) {
  return {.labels = reader.labels(), .groups = reader.snrs_db()};
}

std::size_t count_cells(const RadioMlReader& reader) {
  std::set<std::pair<std::int32_t, std::int32_t>> cells;
  for (std::size_t row = 0; row < reader.labels().size(); ++row)
    cells.emplace(reader.labels()[row], reader.snrs_db()[row]);
  return cells.size();
}

/// A stratified share of some rows.
std::vector<std::int64_t> thinned(const RadioMlReader& reader, const std::vector<std::int64_t>& rows, double share,
                                  std::uint64_t seed) {
  if (share >= 1) return rows;
  std::vector<std::int32_t> labels, snrs_db;
  for (const auto row : rows) {
    labels.push_back(reader.labels()[static_cast<std::size_t>(row)]);
    snrs_db.push_back(reader.snrs_db()[static_cast<std::size_t>(row)]);
  }
  const Strata strata{.labels = labels, .groups = snrs_db};
  std::vector<std::int64_t> chosen = stratified_split(strata, {.fractions = {share}, .seed = seed})[0];
  for (auto& row : chosen) row = rows[static_cast<std::size_t>(row)];
  return chosen;
}

/// Reads rows a few at a time, so that Ctrl-C ends it.
Dataset load_rows(RadioMlReader& reader, const std::vector<std::int64_t>& rows, Progress& progress) {
  constexpr std::size_t step = 1024;
  const auto frame_size = static_cast<std::size_t>(reader.frame_length()) * 2;
  Dataset all{.sample_shape = {2, reader.frame_length()}, .class_names = reader.class_names()};
  all.samples.reserve(rows.size() * frame_size);
  for (std::size_t begin = 0; begin < rows.size(); begin += step) {
    throw_if_cancelled();
    const auto some = std::span(rows).subspan(begin, std::min(step, rows.size() - begin));
    const Dataset part = load_frames(reader, some);
    all.samples.insert(all.samples.end(), part.samples.begin(), part.samples.end());
    all.labels.insert(all.labels.end(), part.labels.begin(), part.labels.end());
    all.groups.insert(all.groups.end(), part.groups.begin(), part.groups.end());
    progress.advance(some.size());
  }
  return all;
}

}  // namespace

FrameFile::FrameFile(const FrameFileOptions& options) : options_(checked(options)), reader_(options.file) {
  if (!options_.split.empty()) {
    parts_ = read_split(options_.split, strata_of(reader_)).parts;
    if (parts_.size() != 3)
      throw Error(ErrorCode::invalid_argument,
                  concat("'", options_.split.string(), "': holds ", parts_.size(),
                         " parts; training, validation and test are needed (amc-data split)"));
  }
  if (options_.frames_per_cell > 0) {
    const double wanted = double{1} * options_.frames_per_cell * static_cast<double>(count_cells(reader_));
    share_ = std::min(1.0, wanted / static_cast<double>(reader_.size()));
  }
  require_memory();
}

void FrameFile::require_memory() const {
  const double bytes_per_frame = 2.0 * static_cast<double>(reader_.frame_length()) * sizeof(float);
  const double bytes = share_ * static_cast<double>(reader_.size()) * bytes_per_frame;
  const double limit = options_.memory_gib * bytes_per_gib;
  if (bytes <= limit) return;
  throw Error(ErrorCode::invalid_argument,
              concat("'", options_.file.string(), "': its frames need ", std::ceil(bytes),
                     " bytes of memory, more than ", limit, " (--memory, in GiB); at most --frames-per-cell ",
                     std::floor(limit / bytes_per_frame / static_cast<double>(count_cells(reader_))), " fit"));
}

std::string FrameFile::identity() {
  constexpr std::int64_t looked_at = 64;
  const std::int64_t count = std::min(looked_at, reader_.size());
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < count; ++i) rows.push_back(i * reader_.size() / count);
  std::vector<float> frames(rows.size() * 2 * static_cast<std::size_t>(reader_.frame_length()));
  reader_.read(rows, frames);
  Sha256 hash;
  hash.update(std::as_bytes(reader_.labels()));
  hash.update(std::as_bytes(reader_.snrs_db()));
  hash.update(std::as_bytes(std::span(frames)));
  for (const auto& part : parts_) {
    const auto size = static_cast<std::int64_t>(part.size());
    hash.update(std::as_bytes(std::span(&size, 1)));
    hash.update(std::as_bytes(std::span(part)));
  }
  return concat("of a file ", to_hexadecimal(hash.digest()), " share ", share_);
}

TaskData FrameFile::load(std::uint64_t seed) {
  auto parts = parts_;
  if (parts.empty()) parts = stratified_split(strata_of(reader_), {.fractions = {0.6, 0.2, 0.2}, .seed = seed});
  std::size_t total = 0;
  for (auto& part : parts) {
    part = thinned(reader_, part, share_, seed);
    total += part.size();
  }
  Progress progress(concat("reading ", options_.file.filename().string()), total);
  return {.train = load_rows(reader_, parts[0], progress),
          .validation = load_rows(reader_, parts[1], progress),
          .test = load_rows(reader_, parts[2], progress)};
}

}  // namespace podaq::amc
