#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "podaq/data/dataset.h"

namespace podaq {

/// Grey-scale images of one size, as an IDX file (magic 2051) holds them.
struct IdxImages {
  std::int64_t count = 0;                 ///< Images.
  std::int64_t rows = 0;                  ///< Pixels from top to bottom.
  std::int64_t columns = 0;               ///< Pixels from left to right.
  std::vector<std::uint8_t> pixels = {};  ///< count × rows × columns, row-major.
};

/// Reads IDX images (magic 2051: three big-endian 32-bit dimensions, then bytes), plain or gzip-compressed; which of
/// the two is told by the content, never by the name. `name` stands for the bytes in error texts. Throws `Error`
/// (format) with what was expected and what was found if the magic is another's (labels, swapped byte order), a
/// dimension is 0, or the bytes are more or fewer than the dimensions say. Dimensions are checked against the input's
/// size before anything of theirs is allocated: a plain file must hold exactly what it announces, a compressed one at
/// most 1032 times its own size (the most that deflate can reach), so memory stays below 1032 times the input.
[[nodiscard]] IdxImages read_idx_images(std::span<const std::uint8_t> bytes, const std::string& name);

/// Reads IDX labels (magic 2049: one dimension, then bytes) in the same way.
[[nodiscard]] std::vector<std::uint8_t> read_idx_labels(std::span<const std::uint8_t> bytes, const std::string& name);

/// Reads a file of IDX images; adds `Error` (io) if it cannot be read.
[[nodiscard]] IdxImages read_idx_images(const std::filesystem::path& path);

/// Reads a file of IDX labels; adds `Error` (io) if it cannot be read.
[[nodiscard]] std::vector<std::uint8_t> read_idx_labels(const std::filesystem::path& path);

/// Joins images with their labels: samples of shape {1, rows, columns} with values pixel/255 in [0, 1].
/// Throws `Error` (format) if the counts differ or a label has no name.
[[nodiscard]] Dataset to_dataset(const IdxImages& images, std::span<const std::uint8_t> labels,
                                 std::vector<std::string> class_names, const std::string& name);

/// The two parts in which an image data set is published.
struct ImageDatasets {
  Dataset train;  ///< The part to learn from.
  Dataset test;   ///< The part to report figures on.
};

/// Reads Fashion-MNIST (60 000 training and 10 000 test images of 28×28, ten classes) from the four files
/// `{train,t10k}-{images-idx3,labels-idx1}-ubyte`, each with or without `.gz`. Debian's package dataset-fashion-mnist
/// puts them into /usr/share/datasets/fashion-mnist.
[[nodiscard]] ImageDatasets load_fashion_mnist(const std::filesystem::path& folder);

}  // namespace podaq
