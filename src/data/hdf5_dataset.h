#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/hdf5_handle.h"

namespace podaq {

/// Opens an HDF5 file for reading. Throws Error: io if it is no regular file or cannot be opened, format if it is not
/// HDF5 or is truncated.
[[nodiscard]] Hdf5File open_hdf5(const std::filesystem::path& path);

/// A dataset of numbers whose rows (the first dimension) are read a few at a time.
struct Hdf5Rows {
  std::filesystem::path path = {};  ///< For error texts.
  std::string name = {};            ///< As in the file.
  Hdf5Dataset dataset = {};         ///< Open for reading.
  std::vector<hsize_t> shape = {};  ///< Rows first.
  H5T_class_t kind = H5T_NO_CLASS;  ///< H5T_FLOAT or H5T_INTEGER.
  std::size_t element_bytes = 0;    ///< In the file.

  /// Elements of one row.
  [[nodiscard]] std::size_t row_size() const;
};

/// Whether the file's root holds something of that name.
[[nodiscard]] bool holds(const Hdf5File& file, const std::string& name);

/// Opens dataset `name` of `file`. Throws Error(format), naming both, if there is none, its rank or kind of number is
/// another, it refers to other files, one of its chunks needs more than 64 MiB, or it announces more than the file
/// stores (at most 1032-fold where it is compressed: deflate's limit); so whoever allocates what `shape` says allocates
/// in proportion to the file.
[[nodiscard]] Hdf5Rows open_rows(const std::filesystem::path& path, const Hdf5File& file, const std::string& name,
                                 std::size_t rank, H5T_class_t kind);

/// Reads rows [first, first + count) into `out` as `memory_type` (H5T_NATIVE_FLOAT, ...). Throws Error(format) naming
/// file, dataset and rows.
void read_rows(const Hdf5Rows& rows, std::uint64_t first, std::uint64_t count, hid_t memory_type, void* out);

/// Reads a one-dimensional dataset of strings, of fixed or variable length. Throws Error(format) unless it holds 1 to
/// 4096 strings, each of 256 bytes at most.
[[nodiscard]] std::vector<std::string> read_strings(const std::filesystem::path& path, const Hdf5File& file,
                                                    const std::string& name);

}  // namespace podaq
