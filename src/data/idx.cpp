#include "podaq/data/idx.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <optional>
#include <utility>

#include "data/gzip.h"
#include "podaq/core/error.h"
#include "podaq/core/text.h"

namespace podaq {

namespace {

constexpr std::uint32_t image_magic = 2051;
constexpr std::uint32_t label_magic = 2049;

[[noreturn]] void refuse(const std::string& name, const std::string& fault) {
  throw Error(ErrorCode::format, concat("'", name, "': ", fault));
}

std::string kind_of(std::uint32_t magic) {
  if (magic == image_magic) return "images";
  if (magic == label_magic) return "labels";
  if (__builtin_bswap32(magic) == image_magic || __builtin_bswap32(magic) == label_magic) return "swapped byte order";
  return "not an IDX file of bytes";
}

/// The decoded bytes of an IDX file, front to back, whether stored plain or compressed.
class ByteSource {
 public:
  ByteSource(std::span<const std::uint8_t> bytes, const std::string& name) : rest_(bytes), name_(name) {
    limit_ = bytes.size();
    if (!is_gzip(bytes)) return;
    gzip_.emplace(bytes, name);
    limit_ = bytes.size() > std::numeric_limits<std::size_t>::max() / max_deflate_ratio
                 ? std::numeric_limits<std::size_t>::max()
                 : bytes.size() * max_deflate_ratio;
  }

  void read(std::span<std::uint8_t> out, const char* what) {
    const std::size_t got = gzip_ ? gzip_->read(out) : copy(out);
    if (got < out.size()) refuse(name_, concat(what, ": expected ", out.size(), " bytes, found ", got));
  }

  std::uint32_t read_big_endian_word(const char* what) {
    std::array<std::uint8_t, 4> bytes;
    read(bytes, what);
    return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
  }

  void expect_end() {
    std::array<std::uint8_t, 1> extra;
    const bool more = gzip_ ? gzip_->read(extra) == 1 || gzip_->has_trailing_bytes() : !rest_.empty();
    if (more) refuse(name_, "has more bytes than its dimensions announce");
  }

  /// Upper bound of the bytes that the whole source can decode to.
  [[nodiscard]] std::size_t limit() const noexcept { return limit_; }
  [[nodiscard]] bool compressed() const noexcept { return gzip_.has_value(); }

 private:
  std::size_t copy(std::span<std::uint8_t> out) {
    const auto count = std::min(out.size(), rest_.size());
    std::copy_n(rest_.begin(), count, out.begin());
    rest_ = rest_.subspan(count);
    return count;
  }

  std::span<const std::uint8_t> rest_;
  const std::string& name_;
  std::optional<GzipReader> gzip_;
  std::size_t limit_ = 0;
};

struct IdxContent {
  std::vector<std::uint32_t> dimensions;
  std::vector<std::uint8_t> bytes;
};

IdxContent read_idx(std::span<const std::uint8_t> file, const std::string& name, std::uint32_t expected_magic) {
  ByteSource source(file, name);
  const auto magic = source.read_big_endian_word("magic number");
  if (magic != expected_magic) {
    refuse(name, concat("magic number: expected ", expected_magic, " (", kind_of(expected_magic), "), found ", magic,
                        " (", kind_of(magic), ")"));
  }
  IdxContent content;
  content.dimensions.resize(magic & 0xFF);
  std::size_t size = 1;
  bool overflow = false;
  for (auto& dimension : content.dimensions) {
    dimension = source.read_big_endian_word("dimensions");
    if (dimension == 0) refuse(name, "a dimension is 0");
    overflow = overflow || __builtin_mul_overflow(size, std::size_t{dimension}, &size);
  }
  const std::size_t header = 4 + 4 * content.dimensions.size();
  const std::size_t available = source.limit() - std::min(header, source.limit());
  if (overflow || size > available) {
    refuse(name, concat("dimensions announce ", overflow ? "more bytes than memory can hold" : concat(size, " bytes"),
                        "; the file of ", file.size(), " bytes can hold ", available, " at most",
                        source.compressed() ? " (gzip)" : ""));
  }
  content.bytes.resize(size);
  source.read(content.bytes, "content");
  source.expect_end();
  return content;
}

std::vector<std::uint8_t> read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary | std::ios::ate);
  const auto size = stream ? static_cast<std::streamoff>(stream.tellg()) : -1;
  if (size < 0 || !std::filesystem::is_regular_file(path)) {
    throw Error(ErrorCode::io, concat("'", path.string(), "': cannot be opened for reading"));
  }
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(size));
  stream.seekg(0);
  stream.read(reinterpret_cast<char*>(bytes.data()), size);
  if (!stream) throw Error(ErrorCode::io, concat("'", path.string(), "': reading failed"));
  return bytes;
}

std::filesystem::path with_or_without_gz(const std::filesystem::path& folder, const std::string& name) {
  auto plain = folder / name;
  auto compressed = folder / (name + ".gz");
  if (std::filesystem::exists(plain)) return plain;
  if (std::filesystem::exists(compressed)) return compressed;
  throw Error(ErrorCode::io,
              concat("'", plain.string(), "[.gz]' does not exist; Debian's package dataset-fashion-mnist ",
                     "puts it into /usr/share/datasets/fashion-mnist"));
}

Dataset load_fashion_mnist_part(const std::filesystem::path& folder, const std::string& prefix) {
  const auto image_path = with_or_without_gz(folder, prefix + "-images-idx3-ubyte");
  const auto label_path = with_or_without_gz(folder, prefix + "-labels-idx1-ubyte");
  return to_dataset(
      read_idx_images(image_path), read_idx_labels(label_path),
      {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"},
      label_path.string());
}

}  // namespace

IdxImages read_idx_images(std::span<const std::uint8_t> bytes, const std::string& name) {
  auto content = read_idx(bytes, name, image_magic);
  return {.count = content.dimensions[0],
          .rows = content.dimensions[1],
          .columns = content.dimensions[2],
          .pixels = std::move(content.bytes)};
}

std::vector<std::uint8_t> read_idx_labels(std::span<const std::uint8_t> bytes, const std::string& name) {
  return read_idx(bytes, name, label_magic).bytes;
}

IdxImages read_idx_images(const std::filesystem::path& path) {
  return read_idx_images(read_file(path), path.string());
}

std::vector<std::uint8_t> read_idx_labels(const std::filesystem::path& path) {
  return read_idx_labels(read_file(path), path.string());
}

Dataset to_dataset(const IdxImages& images, std::span<const std::uint8_t> labels, std::vector<std::string> class_names,
                   const std::string& name) {
  if (static_cast<std::size_t>(images.count) != labels.size()) {
    refuse(name, concat("holds ", labels.size(), " labels for ", images.count, " images"));
  }
  Dataset dataset{.sample_shape = {1, images.rows, images.columns}, .class_names = std::move(class_names)};
  dataset.labels.reserve(labels.size());
  for (std::size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] >= dataset.class_names.size()) {
      refuse(name, concat("row ", row, " has the label ", int{labels[row]}, "; there are ", dataset.class_names.size(),
                          " classes"));
    }
    dataset.labels.push_back(labels[row]);
  }
  dataset.samples.reserve(images.pixels.size());
  for (const auto pixel : images.pixels) dataset.samples.push_back(static_cast<float>(pixel) / 255.0F);
  return dataset;
}

ImageDatasets load_fashion_mnist(const std::filesystem::path& folder) {
  return {.train = load_fashion_mnist_part(folder, "train"), .test = load_fashion_mnist_part(folder, "t10k")};
}

}  // namespace podaq
