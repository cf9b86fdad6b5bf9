#include "data/hdf5_dataset.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "data/gzip.h"
#include "podaq/core/error.h"
#include "podaq/core/text.h"

namespace podaq {
namespace {

constexpr std::size_t most_dimensions = 8;
constexpr std::uint64_t largest_chunk_bytes = std::uint64_t{64} << 20;
constexpr hsize_t most_strings = 4096;
constexpr std::size_t longest_string = 256;

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& name, const std::string& fault) {
  throw Error(ErrorCode::format, concat("'", path.string(), "', dataset '", name, "': ", fault));
}

std::string_view word_for(H5T_class_t kind) {
  if (kind == H5T_FLOAT) return "floats";
  if (kind == H5T_INTEGER) return "integers";
  return kind == H5T_STRING ? "strings" : "another type";
}

std::vector<hsize_t> shape_of(const Hdf5Space& space) {
  std::array<hsize_t, H5S_MAX_RANK> dimensions = {};
  const int rank = H5Sget_simple_extent_dims(space.number(), dimensions.data(), nullptr);
  return {dimensions.begin(), dimensions.begin() + std::max(rank, 0)};
}

std::string text_of(const std::vector<hsize_t>& shape) {
  std::string text;
  for (const hsize_t dimension : shape) text += concat(text.empty() ? "" : ", ", std::uint64_t{dimension});
  return concat("(", text, ")");
}

/// A link that leads into another file would be followed on opening.
void require_own_link(const std::filesystem::path& path, const Hdf5File& file, const std::string& name) {
  if (!holds(file, name)) refuse(path, name, "is missing");
  H5L_info_t link = {};
  if (H5Lget_info(file.number(), name.c_str(), &link, H5P_DEFAULT) < 0)
    throw_hdf5(path, concat("dataset '", name, "'"));
  if (link.type != H5L_TYPE_HARD) refuse(path, name, "is a link to elsewhere, which is not followed");
}

Hdf5Dataset open_dataset(const std::filesystem::path& path, const Hdf5File& file, const std::string& name) {
  require_own_link(path, file, name);
  Hdf5Dataset dataset(H5Dopen2(file.number(), name.c_str(), H5P_DEFAULT));
  if (!dataset.is_open()) throw_hdf5(path, concat("dataset '", name, "' cannot be opened"));
  return dataset;
}

/// Whether the bytes in the file may be fewer than those in memory.
bool check_storage(const Hdf5Rows& rows) {
  const Hdf5Properties properties(H5Dget_create_plist(rows.dataset.number()));
  if (!properties.is_open()) throw_hdf5(rows.path, concat("dataset '", rows.name, "'"));
  const H5D_layout_t layout = H5Pget_layout(properties.number());
  if (layout == H5D_VIRTUAL || H5Pget_external_count(properties.number()) > 0)
    refuse(rows.path, rows.name, "keeps its data in other files, which are not read");
  if (layout != H5D_CHUNKED) return false;
  std::array<hsize_t, H5S_MAX_RANK> chunk = {};
  const int rank = H5Pget_chunk(properties.number(), H5S_MAX_RANK, chunk.data());
  std::uint64_t bytes = rows.element_bytes;
  for (int i = 0; i < rank; ++i) {
    if (__builtin_mul_overflow(bytes, chunk[static_cast<std::size_t>(i)], &bytes)) bytes = UINT64_MAX;
  }
  if (bytes > largest_chunk_bytes)
    refuse(rows.path, rows.name,
           concat("one chunk needs ", bytes, " bytes; at most ", largest_chunk_bytes, " are read: repack the file"));
  return H5Pget_nfilters(properties.number()) > 0;
}

void check_size(const Hdf5Rows& rows) {
  const std::uint64_t ratio = check_storage(rows) ? max_deflate_ratio : 1;
  std::uint64_t announced = rows.element_bytes;
  bool overflow = false;
  for (const hsize_t dimension : rows.shape)
    overflow = overflow || __builtin_mul_overflow(announced, std::uint64_t{dimension}, &announced);
  const std::uint64_t stored =
      std::min<std::uint64_t>(H5Dget_storage_size(rows.dataset.number()), std::filesystem::file_size(rows.path));
  if (overflow || announced / ratio > stored)
    refuse(rows.path, rows.name,
           concat("shape ", text_of(rows.shape), " needs more bytes than the ", stored,
                  " that the file stores; is it truncated?"));
}

std::string trimmed(const char* text, std::size_t length) {
  std::size_t end = 0;
  while (end < length && text[end] != '\0') ++end;
  while (end > 0 && text[end - 1] == ' ') --end;
  return {text, end};
}

herr_t keep_innermost(unsigned /*position*/, const H5E_error2_t* error, void* out) {
  if (error->desc != nullptr) *static_cast<std::string*>(out) = error->desc;
  return 0;
}

}  // namespace

std::string hdf5_reason() {
  std::string reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, keep_innermost, &reason);
  return reason.empty() ? reason : concat(" (HDF5: ", reason, ")");
}

void throw_hdf5(const std::filesystem::path& path, std::string_view what) {
  throw Error(ErrorCode::format, concat("'", path.string(), "': ", what, hdf5_reason()));
}

Hdf5File open_hdf5(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path))
    throw Error(ErrorCode::io, concat("cannot open '", path.string(), "': there is no such regular file"));
  const Hdf5Properties access(H5Pcreate(H5P_FILE_ACCESS));
  // Locks would keep a file on a read-only or network file system from being read.
  H5Pset_file_locking(access.number(), false, true);
  // Room for the largest chunk, or each row would be decoded anew with its whole chunk.
  constexpr std::size_t chunk_slots = 521;
  constexpr double evict_chunks_read_whole = 1;
  H5Pset_cache(access.number(), 0, chunk_slots, largest_chunk_bytes, evict_chunks_read_whole);
  Hdf5File file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.number()));
  if (!file.is_open()) throw_hdf5(path, "is not an HDF5 file, or is truncated");
  return file;
}

std::size_t Hdf5Rows::row_size() const {
  std::size_t product = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) product *= shape[i];
  return product;
}

bool holds(const Hdf5File& file, const std::string& name) {
  return H5Lexists(file.number(), name.c_str(), H5P_DEFAULT) > 0;
}

Hdf5Rows open_rows(const std::filesystem::path& path, const Hdf5File& file, const std::string& name, std::size_t rank,
                   H5T_class_t kind) {
  Hdf5Rows rows{.path = path, .name = name, .dataset = open_dataset(path, file, name)};
  const Hdf5Space space(H5Dget_space(rows.dataset.number()));
  const Hdf5Type type(H5Dget_type(rows.dataset.number()));
  if (!space.is_open() || !type.is_open()) throw_hdf5(path, concat("dataset '", name, "'"));
  rows.shape = shape_of(space);
  rows.kind = H5Tget_class(type.number());
  rows.element_bytes = H5Tget_size(type.number());
  if (rows.shape.size() != rank || rank > most_dimensions)
    refuse(path, name, concat("has the shape ", text_of(rows.shape), "; ", rank, " dimensions are needed"));
  if (rows.kind != kind || rows.element_bytes > 8)
    refuse(path, name,
           concat("holds ", word_for(rows.kind), " of ", rows.element_bytes, " bytes; ", word_for(kind),
                  " of at most 8 bytes are needed"));
  for (const hsize_t dimension : rows.shape)
    if (dimension == 0) refuse(path, name, concat("has the shape ", text_of(rows.shape), ": it is empty"));
  check_size(rows);
  return rows;
}

void read_rows(const Hdf5Rows& rows, std::uint64_t first, std::uint64_t count, hid_t memory_type, void* out) {
  const Hdf5Space in_file(H5Dget_space(rows.dataset.number()));
  std::vector<hsize_t> start(rows.shape.size(), 0);
  std::vector<hsize_t> extent = rows.shape;
  start[0] = first;
  extent[0] = count;
  const Hdf5Space in_memory(H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr));
  const bool done =
      H5Sselect_hyperslab(in_file.number(), H5S_SELECT_SET, start.data(), nullptr, extent.data(), nullptr) >= 0 &&
      H5Dread(rows.dataset.number(), memory_type, in_memory.number(), in_file.number(), H5P_DEFAULT, out) >= 0;
  if (!done)
    throw_hdf5(rows.path,
               concat("dataset '", rows.name, "', rows ", first, " to ", first + count - 1, " cannot be read"));
}

std::vector<std::string> read_strings(const std::filesystem::path& path, const Hdf5File& file,
                                      const std::string& name) {
  const Hdf5Dataset dataset = open_dataset(path, file, name);
  const Hdf5Space space(H5Dget_space(dataset.number()));
  const Hdf5Type type(H5Dget_type(dataset.number()));
  const std::vector<hsize_t> shape = shape_of(space);
  if (shape.size() != 1 || shape[0] == 0 || shape[0] > most_strings || H5Tget_class(type.number()) != H5T_STRING)
    refuse(path, name,
           concat("must hold 1 to ", std::uint64_t{most_strings}, " strings in one dimension; its shape is ",
                  text_of(shape), " of ", word_for(H5Tget_class(type.number()))));
  const auto count = static_cast<std::size_t>(shape[0]);
  std::vector<std::string> strings;
  if (H5Tis_variable_str(type.number()) > 0) {
    std::vector<char*> pointers(count, nullptr);
    if (H5Dread(dataset.number(), type.number(), H5S_ALL, H5S_ALL, H5P_DEFAULT, pointers.data()) < 0)
      throw_hdf5(path, concat("dataset '", name, "' cannot be read"));
    for (const char* text : pointers) strings.push_back(text == nullptr ? "" : trimmed(text, std::strlen(text)));
    H5Dvlen_reclaim(type.number(), space.number(), H5P_DEFAULT, pointers.data());
  } else {
    const std::size_t length = H5Tget_size(type.number());
    if (length > longest_string)
      refuse(path, name, concat("has strings of ", length, " bytes; at most ", longest_string, " are read"));
    std::vector<char> bytes(count * length);
    if (H5Dread(dataset.number(), type.number(), H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()) < 0)
      throw_hdf5(path, concat("dataset '", name, "' cannot be read"));
    for (std::size_t i = 0; i < count; ++i) strings.push_back(trimmed(bytes.data() + i * length, length));
  }
  for (const std::string& text : strings)
    if (text.empty() || text.size() > longest_string)
      refuse(path, name, concat("holds a string of ", text.size(), " bytes; names have 1 to ", longest_string));
  return strings;
}

}  // namespace podaq
