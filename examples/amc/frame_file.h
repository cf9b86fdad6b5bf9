#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "podaq/data/radioml_file.h"
#include "podaq/study/task.h"

namespace podaq::amc {

/// Which frames of a file a task trains and tests on.
struct FrameFileOptions {
  std::filesystem::path file = {};   ///< HDF5 of the layout of RadioML 2018.01A.
  std::filesystem::path split = {};  ///< From `amc-data split`: training, validation, test; empty: 60/20/20 per class
                                     ///< and SNR, dealt out by the run's seed.
  int frames_per_cell = 0;           ///< At least 0: on average so many frames of each class at each SNR, shared by the
                                     ///< three parts; 0: all.
  double memory_gib = 4;             ///< In (0, 65536]: what the frames may take.
};

/// A file of frames, of which a stratified share is taken into memory.
class FrameFile {
 public:
  /// Opens the file and reads the split. Throws `Error`: as `RadioMlReader` and `read_split` do; invalid_argument for
  /// an option outside its range, a split of other than three parts, or frames that need more than memory_gib, with
  /// what they need and how many a cell would fit.
  explicit FrameFile(const FrameFileOptions& options);

  /// The open file.
  [[nodiscard]] const RadioMlReader& reader() const noexcept { return reader_; }

  /// What `load` depends on besides the seed: a digest of labels, SNRs, 64 frames spread over the file, and the split,
  /// and the share. It takes what a file holds, not where it lies. Throws `Error` as `RadioMlReader::read` does.
  [[nodiscard]] std::string identity();

  /// Reads the frames, each of mean power 1. Throws `Error` as `RadioMlReader::read` does: a frame with NaN ends it.
  /// @param seed  deals out the rows, where there is no split, and picks the share of each part.
  [[nodiscard]] TaskData load(std::uint64_t seed);

 private:
  void require_memory() const;

  FrameFileOptions options_;
  RadioMlReader reader_;
  std::vector<std::vector<std::int64_t>> parts_ = {};  ///< Of the split file; empty where there is none.
  double share_ = 1;                                   ///< Of each part.
};

}  // namespace podaq::amc
