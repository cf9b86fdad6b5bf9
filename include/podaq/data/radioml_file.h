#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "podaq/data/dataset.h"

namespace podaq {

/// The 24 classes of RadioML 2018.01A in the true order of its one-hot columns: the classes.txt that came with the set
/// is wrong, as classes-fixed.json of newer copies says.
[[nodiscard]] std::span<const char* const> radioml2018_class_names();

/// The signal-to-noise ratios of RadioML 2018.01A in dB: −20 to 30 in steps of 2.
[[nodiscard]] std::vector<std::int32_t> radioml2018_snr_grid();

/// Reads an HDF5 file of the layout of RadioML 2018.01A (GOLD_XYZ_OSC.0001_1024.hdf5): N frames of L complex samples in
/// the datasets `X` (N, L, 2) float32, first in-phase, then quadrature; `Y` (N, C) integers, one-hot; `Z` (N, 1)
/// integers, the SNR in dB. Two datasets more say what they mean; `RadioMlWriter` adds them: `classes` (C) strings of
/// fixed length, without which C must be 24 (`radioml2018_class_names`), and `snrs` integers, the SNRs that may occur,
/// without which they are `radioml2018_snr_grid`. X is stored as one piece or in chunks of at most 64 MiB.
/// `Y` and `Z` are read, and checked, when the file is opened, and kept as 8 bytes a frame; `X` stays on disk: a set of
/// 20 GiB needs 20 MB of memory. Not to be shared between threads, nor is HDF5 itself, as Debian builds it: one thread
/// at a time may have readers and writers.
class RadioMlReader {
 public:
  /// Opens the file. Throws `Error`: io if it cannot be read; format, naming file, dataset and row, if it is no HDF5
  /// file, is cut short, lacks a dataset, one has another shape or type than above, they disagree about N, a row of `Y`
  /// is not one-hot, or one of `Z` is not in the grid of SNRs. What the datasets announce is compared with the file's
  /// size before anything of theirs is allocated.
  explicit RadioMlReader(const std::filesystem::path& path);
  ~RadioMlReader();
  RadioMlReader(RadioMlReader&&) noexcept;
  RadioMlReader& operator=(RadioMlReader&&) noexcept;

  /// N, the number of frames.
  [[nodiscard]] std::int64_t size() const noexcept;
  /// L, the complex samples of one frame.
  [[nodiscard]] std::int64_t frame_length() const noexcept;
  /// One name for each class.
  [[nodiscard]] const std::vector<std::string>& class_names() const noexcept;
  /// The SNRs in dB that may occur, ascending.
  [[nodiscard]] const std::vector<std::int32_t>& snr_grid() const noexcept;
  /// The class of each frame.
  [[nodiscard]] std::span<const std::int32_t> labels() const noexcept;
  /// The SNR of each frame in dB.
  [[nodiscard]] std::span<const std::int32_t> snrs_db() const noexcept;

  /// Reads the frames of `rows`, in that order, as the file holds them, each as {2, L}: all in-phase samples, then all
  /// quadrature samples. Besides `out`, at most 4 MiB (or one
  /// frame) and HDF5's cache of 64 MiB are in memory. Ascending rows are read fastest.
  /// Throws `Error`: invalid_argument for a row outside [0, size()) or an `out` of another size than rows × 2 × L;
  /// format, naming file, dataset and row, for a frame with NaN or infinity; io if reading fails.
  void read(std::span<const std::int64_t> rows, std::span<float> out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The frames of `rows` as a data set of samples {2, L}, each scaled to a mean power of 1 (`scale_to_unit_power`), with
/// the SNR in dB as group. Throws as `RadioMlReader::read`.
[[nodiscard]] Dataset load_frames(RadioMlReader& reader, std::span<const std::int64_t> rows);

}  // namespace podaq
