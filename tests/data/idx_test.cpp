#include "podaq/data/idx.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "podaq/core/error.h"
#include "support/temporary_folder.h"

namespace podaq {
namespace {

using Bytes = std::vector<std::uint8_t>;

void append_word(Bytes& bytes, std::uint32_t word) {
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<std::uint8_t>(word >> shift));
}

Bytes idx(std::uint32_t magic, const std::vector<std::uint32_t>& dimensions, std::size_t content) {
  Bytes bytes;
  append_word(bytes, magic);
  for (const auto dimension : dimensions) append_word(bytes, dimension);
  for (std::size_t i = 0; i < content; ++i) bytes.push_back(static_cast<std::uint8_t>(i * 37 % 10));
  return bytes;
}

Bytes gzip(const Bytes& plain) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY), Z_OK);
  Bytes packed(deflateBound(&stream, plain.size()) + 64);
  stream.next_in = const_cast<Bytef*>(plain.data());
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string image_refusal(const Bytes& bytes) {
  try {
    (void)read_idx_images(bytes, "trial");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::format);
    return error.what();
  }
  return "accepted";
}

void expect_mentions(const std::string& text, const std::vector<std::string>& words) {
  for (const auto& word : words) EXPECT_NE(text.find(word), std::string::npos) << word << " is missing from: " << text;
}

class IdxFile : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const Bytes& bytes) const {
    const auto path = folder_.path() / name;
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return path;
  }

  test::TemporaryFolder folder_;
};

TEST(Idx, ReadsImagesAndLabelsPlainAndCompressed) {
  const auto image_file = idx(2051, {3, 4, 5}, 60);
  const auto label_file = idx(2049, {7}, 7);
  for (const auto& bytes : {image_file, gzip(image_file)}) {
    const auto images = read_idx_images(bytes, "trial");
    EXPECT_EQ(images.count, 3);
    EXPECT_EQ(images.rows, 4);
    EXPECT_EQ(images.columns, 5);
    EXPECT_EQ(images.pixels, Bytes(image_file.begin() + 16, image_file.end()));
  }
  for (const auto& bytes : {label_file, gzip(label_file)}) {
    EXPECT_EQ(read_idx_labels(bytes, "trial"), Bytes(label_file.begin() + 8, label_file.end()));
  }
}

// Case C64: the suffix says nothing, the content does.
TEST_F(IdxFile, CompressionIsToldByContentNotBySuffix) {
  const auto plain = idx(2051, {2, 3, 3}, 18);
  for (const auto& path : {write("images", gzip(plain)), write("images.gz", gzip(plain)), write("plain.gz", plain),
                           write("plain", plain)}) {
    EXPECT_EQ(read_idx_images(path).pixels, Bytes(plain.begin() + 16, plain.end())) << path;
  }
}

TEST(Idx, AWrongMagicIsRefusedWithExpectedAndFound) {
  expect_mentions(image_refusal(idx(2049, {60}, 60)), {"trial", "expected 2051 (images)", "found 2049 (labels)"});
  expect_mentions(image_refusal(gzip(idx(2049, {60}, 60))), {"expected 2051 (images)", "found 2049 (labels)"});
  expect_mentions(image_refusal(idx(0x03080000, {1, 1, 1}, 1)), {"expected 2051", "swapped byte order"});
  expect_mentions(image_refusal({'P', 'K', 3, 4, 0, 0, 0, 0}), {"expected 2051", "not an IDX file"});
  try {
    (void)read_idx_labels(idx(2051, {1, 2, 2}, 4), "trial");
    FAIL();
  } catch (const Error& error) {
    expect_mentions(error.what(), {"expected 2049 (labels)", "found 2051 (images)"});
  }
}

TEST(Idx, DimensionsThatTheFileCannotHoldAreRefusedBeforeAllocation) {
  auto short_file = idx(2051, {60000, 28, 28}, 1024 - 16);
  expect_mentions(image_refusal(short_file), {"47040000 bytes", "1024 bytes can hold 1008"});
  short_file = idx(2051, {60000, 28, 28}, 0);
  expect_mentions(image_refusal(gzip(short_file)), {"47040000 bytes", "gzip"});
  const std::uint32_t huge = 0xFFFFFFFF;
  expect_mentions(image_refusal(idx(2051, {huge, huge, huge}, 8)), {"more bytes than memory can hold"});
  expect_mentions(image_refusal(gzip(idx(2051, {huge, huge, huge}, 8))), {"more bytes than memory can hold"});
  expect_mentions(image_refusal(idx(2051, {huge, huge, 1}, 8)), {"can hold 8 at most"});
  expect_mentions(image_refusal(idx(2051, {0, 28, 28}, 0)), {"a dimension is 0"});
}

TEST(Idx, TheContentMustHaveExactlyTheAnnouncedLength) {
  expect_mentions(image_refusal(idx(2051, {2, 2, 2}, 9)), {"more bytes"});
  expect_mentions(image_refusal(gzip(idx(2051, {2, 2, 2}, 9))), {"more bytes"});
  expect_mentions(image_refusal(gzip(idx(2051, {2, 2, 2}, 7))), {"expected 8 bytes, found 7"});
  auto trailing = gzip(idx(2051, {2, 2, 2}, 8));
  trailing.push_back(0);
  expect_mentions(image_refusal(trailing), {"more bytes"});
}

TEST(Idx, EveryTruncationIsRefused) {
  const auto plain = idx(2051, {2, 3, 4}, 24);
  for (const auto& whole : {plain, gzip(plain)}) {
    for (std::size_t length = 0; length < whole.size(); ++length) {
      EXPECT_NE(image_refusal(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length))), "accepted")
          << length;
    }
  }
}

TEST(Idx, ADamagedGzipStreamIsRefused) {
  const auto whole = gzip(idx(2051, {5, 16, 16}, 5 * 256));
  for (const std::size_t position : {std::size_t{2}, whole.size() / 2, whole.size() - 6, whole.size() - 2}) {
    auto damaged = whole;
    damaged[position] ^= 0x55;
    EXPECT_NE(image_refusal(damaged), "accepted") << position;
  }
}

TEST_F(IdxFile, AMissingFileAndAFolderAreNamed) {
  for (const auto& path : {folder_.path() / "absent", folder_.path()}) {
    try {
      (void)read_idx_images(path);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::io);
      expect_mentions(error.what(), {path.string()});
    }
  }
}

TEST(Idx, ImagesAndLabelsMustMatch) {
  const auto images = read_idx_images(idx(2051, {2, 1, 2}, 4), "images");
  EXPECT_THROW((void)to_dataset(images, Bytes{0}, {"a", "b"}, "labels"), Error);
  EXPECT_THROW((void)to_dataset(images, Bytes{0, 2}, {"a", "b"}, "labels"), Error);
  const auto dataset = to_dataset(images, Bytes{1, 0}, {"a", "b"}, "labels");
  validate(dataset, "joined");
  EXPECT_EQ(dataset.sample_shape, (std::vector<std::int64_t>{1, 1, 2}));
  EXPECT_EQ(dataset.labels, (std::vector<std::int32_t>{1, 0}));
  EXPECT_EQ(dataset.samples[1], 7.0F / 255.0F);
}

TEST(FashionMnist, DebiansFilesAreReadWhole) {
  const std::filesystem::path folder = "/usr/share/datasets/fashion-mnist";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "the package dataset-fashion-mnist is not installed";
  const auto datasets = load_fashion_mnist(folder);
  EXPECT_EQ(datasets.train.size(), 60000);
  EXPECT_EQ(datasets.test.size(), 10000);
  for (const auto* part : {&datasets.train, &datasets.test}) {
    validate(*part, "fashion-mnist");
    EXPECT_EQ(part->sample_shape, (std::vector<std::int64_t>{1, 28, 28}));
    std::vector<std::int64_t> counts(10);
    for (const auto label : part->labels) ++counts[static_cast<std::size_t>(label)];
    EXPECT_EQ(counts, std::vector<std::int64_t>(10, part->size() / 10));
    const auto [lowest, highest] = std::ranges::minmax(part->samples);
    EXPECT_EQ(lowest, 0.0F);
    EXPECT_EQ(highest, 1.0F);
  }
  // The first training image is an ankle boot.
  EXPECT_EQ(datasets.train.class_names[static_cast<std::size_t>(datasets.train.labels[0])], "Ankle boot");
}

TEST_F(IdxFile, AFolderWithoutFashionMnistSaysWhichPackageHasIt) {
  try {
    (void)load_fashion_mnist(folder_.path());
    FAIL();
  } catch (const Error& error) {
    expect_mentions(error.what(), {"train-images-idx3-ubyte", "dataset-fashion-mnist"});
  }
}

}  // namespace
}  // namespace podaq
