#include "podaq/data/radioml_writer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "data/hdf5_handle.h"
#include "data/radioml_layout.h"
#include "podaq/core/atomic_file.h"
#include "podaq/core/error.h"
#include "podaq/core/text.h"

namespace podaq {
namespace {

constexpr std::size_t block_bytes = std::size_t{4} << 20;

[[noreturn]] void refuse_field(std::string_view field, const std::string& fault) {
  throw Error(ErrorCode::invalid_argument, concat("RadioMlLayout.", field, ": ", fault));
}

void validate(const RadioMlLayout& layout) {
  if (layout.size < 1) refuse_field("size", concat(layout.size, "; it must be at least 1"));
  if (layout.frame_length < 1 || layout.frame_length > static_cast<std::int64_t>(radioml_layout::longest_frame))
    refuse_field("frame_length", concat(layout.frame_length, "; it must be in [1, 2^20]"));
  if (const auto fault = radioml_layout::fault_of_names(layout.class_names)) refuse_field("class_names", *fault);
  if (const auto fault = radioml_layout::fault_of_grid(layout.snr_grid)) refuse_field("snr_grid", *fault);
}

/// Throws Error(io) unless HDF5 was content.
void require_written(bool done, const std::filesystem::path& path, std::string_view what) {
  if (!done) throw Error(ErrorCode::io, concat("cannot write '", path.string(), "': ", what, hdf5_reason()));
}

Hdf5Dataset create_dataset(const std::filesystem::path& path, const Hdf5File& file, const char* name, hid_t type,
                           const std::vector<hsize_t>& shape) {
  const Hdf5Space space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
  const Hdf5Properties properties(H5Pcreate(H5P_DATASET_CREATE));
  // Dates would make files of equal content differ.
  H5Pset_obj_track_times(properties.number(), false);
  // Every element is written; filling first would write the file twice.
  H5Pset_fill_time(properties.number(), H5D_FILL_TIME_NEVER);
  Hdf5Dataset dataset(
      H5Dcreate2(file.number(), name, type, space.number(), H5P_DEFAULT, properties.number(), H5P_DEFAULT));
  require_written(dataset.is_open(), path, name);
  return dataset;
}

/// Writes rows [first, first + extent[0]) of a dataset.
void write_rows(const std::filesystem::path& path, const Hdf5Dataset& dataset, std::uint64_t first,
                const std::vector<hsize_t>& extent, hid_t memory_type, const void* values) {
  const Hdf5Space in_file(H5Dget_space(dataset.number()));
  const Hdf5Space in_memory(H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr));
  std::vector<hsize_t> start(extent.size(), 0);
  start[0] = first;
  const bool done =
      H5Sselect_hyperslab(in_file.number(), H5S_SELECT_SET, start.data(), nullptr, extent.data(), nullptr) >= 0 &&
      H5Dwrite(dataset.number(), memory_type, in_memory.number(), in_file.number(), H5P_DEFAULT, values) >= 0;
  require_written(done, path, concat("rows from ", first, " on"));
}

void write_class_names(const std::filesystem::path& path, const Hdf5File& file, const std::vector<std::string>& names) {
  std::size_t width = 1;
  for (const auto& name : names) width = std::max(width, name.size());
  const Hdf5Type type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type.number(), width);
  H5Tset_strpad(type.number(), H5T_STR_NULLPAD);
  H5Tset_cset(type.number(), H5T_CSET_UTF8);
  std::vector<char> bytes(names.size() * width, '\0');
  for (std::size_t i = 0; i < names.size(); ++i)
    std::ranges::copy(names[i], bytes.begin() + static_cast<std::ptrdiff_t>(i * width));
  const auto dataset = create_dataset(path, file, "classes", type.number(), {names.size()});
  write_rows(path, dataset, 0, {names.size()}, type.number(), bytes.data());
}

void write_snr_grid(const std::filesystem::path& path, const Hdf5File& file, const std::vector<std::int32_t>& grid) {
  const auto dataset = create_dataset(path, file, "snrs", H5T_STD_I64LE, {grid.size()});
  write_rows(path, dataset, 0, {grid.size()}, H5T_NATIVE_INT32, grid.data());
}

}  // namespace

struct RadioMlWriter::State {
  State(const std::filesystem::path& target, const RadioMlLayout& given) : path(target), layout(given), whole(target) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    const QuietHdf5 quiet;
    x = {};
    y = {};
    z = {};
    file = {};
  }

  std::filesystem::path path;
  RadioMlLayout layout;
  AtomicFile whole;
  Hdf5File file = {};
  Hdf5Dataset x = {};
  Hdf5Dataset y = {};
  Hdf5Dataset z = {};
  std::int64_t written = 0;
};

RadioMlWriter::RadioMlWriter(const std::filesystem::path& path, const RadioMlLayout& layout) {
  validate(layout);
  const QuietHdf5 quiet;
  state_ = std::make_unique<State>(path, layout);
  auto& state = *state_;
  state.file = Hdf5File(H5Fcreate(state.whole.temporary().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
  require_written(state.file.is_open(), path, "the file cannot be made");
  const auto rows = static_cast<hsize_t>(layout.size);
  const auto length = static_cast<hsize_t>(layout.frame_length);
  state.x = create_dataset(path, state.file, "X", H5T_IEEE_F32LE, {rows, length, 2});
  state.y = create_dataset(path, state.file, "Y", H5T_STD_I64LE, {rows, layout.class_names.size()});
  state.z = create_dataset(path, state.file, "Z", H5T_STD_I64LE, {rows, 1});
  write_class_names(path, state.file, layout.class_names);
  write_snr_grid(path, state.file, layout.snr_grid);
}

RadioMlWriter::~RadioMlWriter() = default;
RadioMlWriter::RadioMlWriter(RadioMlWriter&&) noexcept = default;
RadioMlWriter& RadioMlWriter::operator=(RadioMlWriter&&) noexcept = default;

void RadioMlWriter::append(std::span<const float> frames, std::span<const std::int32_t> labels,
                           std::span<const std::int32_t> snrs_db) {
  const QuietHdf5 quiet;
  auto& state = *state_;
  const auto length = static_cast<std::size_t>(state.layout.frame_length);
  const std::size_t classes = state.layout.class_names.size();
  const auto refuse = [](const std::string& fault) {
    throw Error(ErrorCode::invalid_argument, concat("RadioMlWriter::append: ", fault));
  };
  if (snrs_db.size() != labels.size() || frames.size() != labels.size() * 2 * length)
    refuse(concat(labels.size(), " labels, ", snrs_db.size(), " SNRs and ", frames.size(),
                  " floats do not make frames ", "of 2 × ", length));
  if (static_cast<std::int64_t>(labels.size()) > state.layout.size - state.written)
    refuse(concat("frames beyond the ", state.layout.size, " that the layout announces"));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto row = state.written + static_cast<std::int64_t>(i);
    if (labels[i] < 0 || static_cast<std::size_t>(labels[i]) >= classes)
      refuse(concat("row ", row, " has the label ", labels[i], "; there are ", classes, " classes"));
    if (!std::ranges::binary_search(state.layout.snr_grid, snrs_db[i]))
      refuse(concat("row ", row, " has an SNR of ", snrs_db[i], " dB, which is not in the grid"));
  }
  const auto bad = std::ranges::find_if_not(frames, [](float value) { return std::isfinite(value); });
  if (bad != frames.end())
    refuse(concat("row ", state.written + (bad - frames.begin()) / static_cast<std::ptrdiff_t>(2 * length),
                  " holds a value that is not finite"));

  const std::size_t row_bytes = std::max(2 * length * sizeof(float), classes * sizeof(std::int64_t));
  const std::size_t rows_per_block = std::max<std::size_t>(1, block_bytes / row_bytes);
  std::vector<float> pairs;
  std::vector<std::int64_t> one_hot;
  for (std::size_t begin = 0; begin < labels.size(); begin += rows_per_block) {
    const std::size_t count = std::min(rows_per_block, labels.size() - begin);
    pairs.resize(count * 2 * length);
    one_hot.assign(count * classes, 0);
    for (std::size_t i = 0; i < count; ++i) {
      const float* frame = frames.data() + (begin + i) * 2 * length;
      float* out = pairs.data() + i * 2 * length;
      for (std::size_t sample = 0; sample < length; ++sample) {
        out[2 * sample] = frame[sample];
        out[2 * sample + 1] = frame[length + sample];
      }
      one_hot[i * classes + static_cast<std::size_t>(labels[begin + i])] = 1;
    }
    const auto first = static_cast<std::uint64_t>(state.written);
    write_rows(state.path, state.x, first, {count, length, 2}, H5T_NATIVE_FLOAT, pairs.data());
    write_rows(state.path, state.y, first, {count, classes}, H5T_NATIVE_INT64, one_hot.data());
    write_rows(state.path, state.z, first, {count, 1}, H5T_NATIVE_INT32, snrs_db.data() + begin);
    state.written += static_cast<std::int64_t>(count);
  }
}

void RadioMlWriter::finish() {
  const QuietHdf5 quiet;
  auto& state = *state_;
  if (state.written != state.layout.size)
    throw Error(ErrorCode::invalid_argument,
                concat("RadioMlWriter::finish: ", state.written, " of ", state.layout.size, " frames were added"));
  const bool x_closed = state.x.close();
  const bool y_closed = state.y.close();
  const bool z_closed = state.z.close();
  const bool file_closed = state.file.close();
  require_written(x_closed && y_closed && z_closed && file_closed, state.path, "closing failed");
  state.whole.commit();
}

}  // namespace podaq
