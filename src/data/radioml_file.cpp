#include "podaq/data/radioml_file.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "data/hdf5_dataset.h"
#include "data/radioml_layout.h"
#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "podaq/data/iq_frame.h"

namespace podaq {
namespace {

constexpr std::size_t block_bytes = std::size_t{4} << 20;

constexpr std::array<const char*, 24> names_of_2018 = {
    "OOK",    "4ASK",      "8ASK",      "BPSK",      "QPSK",      "8PSK",  "16PSK", "32PSK",
    "16APSK", "32APSK",    "64APSK",    "128APSK",   "16QAM",     "32QAM", "64QAM", "128QAM",
    "256QAM", "AM-SSB-WC", "AM-SSB-SC", "AM-DSB-WC", "AM-DSB-SC", "FM",    "GMSK",  "OQPSK"};

[[noreturn]] void refuse(const std::filesystem::path& path, std::string_view dataset, const std::string& fault) {
  throw Error(ErrorCode::format, concat("'", path.string(), "', dataset '", dataset, "'", fault));
}

[[noreturn]] void refuse(const Hdf5Rows& rows, const std::string& fault) {
  refuse(rows.path, rows.name, fault);
}

/// Calls `take(row, values)` for each row of a dataset of integers, holding one block at a time.
template <typename Take>
void for_each_row(const Hdf5Rows& rows, const Take& take) {
  const std::size_t width = rows.row_size();
  const std::uint64_t rows_per_block = std::max<std::uint64_t>(1, block_bytes / (width * sizeof(std::int64_t)));
  std::vector<std::int64_t> block;
  for (std::uint64_t first = 0; first < rows.shape[0]; first += rows_per_block) {
    const std::uint64_t count = std::min<std::uint64_t>(rows_per_block, rows.shape[0] - first);
    block.resize(static_cast<std::size_t>(count) * width);
    read_rows(rows, first, count, H5T_NATIVE_INT64, block.data());
    for (std::uint64_t i = 0; i < count; ++i)
      take(first + i, std::span<const std::int64_t>(block).subspan(static_cast<std::size_t>(i) * width, width));
  }
}

std::vector<std::int32_t> read_labels(const Hdf5Rows& y) {
  std::vector<std::int32_t> labels;
  labels.reserve(y.shape[0]);
  for_each_row(y, [&](std::uint64_t row, std::span<const std::int64_t> values) {
    const auto ones = std::ranges::count(values, 1);
    const auto zeros = std::ranges::count(values, 0);
    if (ones != 1 || ones + zeros != static_cast<std::ptrdiff_t>(values.size()))
      refuse(y, concat(", row ", row, ": is not one-hot: it has ", static_cast<std::int64_t>(ones), " ones and ",
                       static_cast<std::int64_t>(zeros), " zeros in ", values.size(), " columns"));
    labels.push_back(static_cast<std::int32_t>(std::ranges::find(values, 1) - values.begin()));
  });
  return labels;
}

std::vector<std::int32_t> read_snrs(const Hdf5Rows& z, const std::vector<std::int32_t>& grid) {
  std::vector<std::int32_t> snrs;
  snrs.reserve(z.shape[0]);
  for_each_row(z, [&](std::uint64_t row, std::span<const std::int64_t> values) {
    if (!std::ranges::binary_search(grid, values[0]))
      refuse(z, concat(", row ", row, ": an SNR of ", values[0], " dB is not in the grid of ", grid.size(), " from ",
                       grid.front(), " to ", grid.back(), " dB; another grid goes into the dataset 'snrs'"));
    snrs.push_back(static_cast<std::int32_t>(values[0]));
  });
  return snrs;
}

std::vector<std::string> class_names_of(const Hdf5File& file, const Hdf5Rows& y) {
  const hsize_t classes = y.shape[1];
  if (!holds(file, "classes")) {
    if (classes != names_of_2018.size())
      refuse(y,
             concat(" has ", std::uint64_t{classes}, " columns; without a dataset 'classes' that names them, 24 are ",
                    "needed, as in RadioML 2018.01A"));
    return {names_of_2018.begin(), names_of_2018.end()};
  }
  auto names = read_strings(y.path, file, "classes");
  if (names.size() != classes)
    refuse(y, concat(" has ", std::uint64_t{classes}, " columns, but 'classes' names ", names.size()));
  return names;
}

std::vector<std::int32_t> snr_grid_of(const std::filesystem::path& path, const Hdf5File& file) {
  if (!holds(file, "snrs")) return radioml2018_snr_grid();
  const Hdf5Rows rows = open_rows(path, file, "snrs", 1, H5T_INTEGER);
  if (rows.shape[0] > radioml_layout::most_snrs)
    refuse(rows, concat(" holds ", std::uint64_t{rows.shape[0]}, " SNRs; at most ", radioml_layout::most_snrs,
                        " are allowed"));
  std::vector<std::int32_t> grid;
  for_each_row(rows, [&](std::uint64_t row, std::span<const std::int64_t> values) {
    const std::int64_t snr = values[0];
    if (snr < -radioml_layout::largest_snr_db || snr > radioml_layout::largest_snr_db)
      refuse(rows, concat(", row ", row, ": ", snr, " dB is outside -200 to 200"));
    grid.push_back(static_cast<std::int32_t>(snr));
  });
  return grid;
}

void check_frames(const Hdf5Rows& x) {
  if (x.element_bytes != sizeof(float)) refuse(x, concat(" holds floats of ", x.element_bytes, " bytes; 4 are needed"));
  if (x.shape[2] != 2)
    refuse(x,
           concat(" has ", std::uint64_t{x.shape[2]}, " as its last dimension; 2 are needed, in-phase and quadrature"));
  if (x.shape[1] > radioml_layout::longest_frame)
    refuse(x, concat(" has frames of ", std::uint64_t{x.shape[1]}, " samples; at most ", radioml_layout::longest_frame,
                     " are read"));
}

void check_rows_agree(const Hdf5Rows& x, const Hdf5Rows& other) {
  if (other.shape[0] != x.shape[0])
    refuse(other, concat(" has ", std::uint64_t{other.shape[0]}, " rows; 'X' has ", std::uint64_t{x.shape[0]}));
}

}  // namespace

std::span<const char* const> radioml2018_class_names() {
  return names_of_2018;
}

std::vector<std::int32_t> radioml2018_snr_grid() {
  std::vector<std::int32_t> grid;
  for (std::int32_t snr = -20; snr <= 30; snr += 2) grid.push_back(snr);
  return grid;
}

struct RadioMlReader::State {
  Hdf5File file;
  Hdf5Rows x;
  std::vector<std::string> class_names;
  std::vector<std::int32_t> snr_grid;
  std::vector<std::int32_t> labels;
  std::vector<std::int32_t> snrs_db;
  std::vector<float> block = {};
};

RadioMlReader::RadioMlReader(const std::filesystem::path& path) {
  const QuietHdf5 quiet;
  Hdf5File file = open_hdf5(path);
  Hdf5Rows x = open_rows(path, file, "X", 3, H5T_FLOAT);
  const Hdf5Rows y = open_rows(path, file, "Y", 2, H5T_INTEGER);
  const Hdf5Rows z = open_rows(path, file, "Z", 2, H5T_INTEGER);
  check_frames(x);
  check_rows_agree(x, y);
  check_rows_agree(x, z);
  if (y.shape[1] > radioml_layout::most_classes)
    refuse(y, concat(" has ", std::uint64_t{y.shape[1]}, " columns; at most ", radioml_layout::most_classes,
                     " classes are read"));
  if (z.shape[1] != 1) refuse(z, concat(" has ", std::uint64_t{z.shape[1]}, " columns; 1 is needed"));
  auto names = class_names_of(file, y);
  auto grid = snr_grid_of(path, file);
  if (const auto fault = radioml_layout::fault_of_names(names)) refuse(path, "classes", concat(": ", *fault));
  if (const auto fault = radioml_layout::fault_of_grid(grid)) refuse(path, "snrs", concat(": ", *fault));
  auto labels = read_labels(y);
  auto snrs = read_snrs(z, grid);
  state_ = std::make_unique<State>(State{.file = std::move(file),
                                         .x = std::move(x),
                                         .class_names = std::move(names),
                                         .snr_grid = std::move(grid),
                                         .labels = std::move(labels),
                                         .snrs_db = std::move(snrs)});
}

RadioMlReader::~RadioMlReader() = default;
RadioMlReader::RadioMlReader(RadioMlReader&&) noexcept = default;
RadioMlReader& RadioMlReader::operator=(RadioMlReader&&) noexcept = default;

std::int64_t RadioMlReader::size() const noexcept {
  return static_cast<std::int64_t>(state_->labels.size());
}
std::int64_t RadioMlReader::frame_length() const noexcept {
  return static_cast<std::int64_t>(state_->x.shape[1]);
}
const std::vector<std::string>& RadioMlReader::class_names() const noexcept {
  return state_->class_names;
}
const std::vector<std::int32_t>& RadioMlReader::snr_grid() const noexcept {
  return state_->snr_grid;
}
std::span<const std::int32_t> RadioMlReader::labels() const noexcept {
  return state_->labels;
}
std::span<const std::int32_t> RadioMlReader::snrs_db() const noexcept {
  return state_->snrs_db;
}

void RadioMlReader::read(std::span<const std::int64_t> rows, std::span<float> out) {
  const QuietHdf5 quiet;
  const auto length = static_cast<std::size_t>(frame_length());
  if (out.size() != rows.size() * 2 * length)
    throw Error(ErrorCode::invalid_argument, concat("RadioMlReader::read: out holds ", out.size(), " floats; ",
                                                    rows.size(), " frames of 2 × ", length, " need others"));
  for (const auto row : rows)
    if (row < 0 || row >= size())
      throw Error(ErrorCode::invalid_argument,
                  concat("RadioMlReader::read: row ", row, " is outside 0 to ", size(), " − 1"));
  const std::size_t rows_per_block = std::max<std::size_t>(1, block_bytes / (2 * length * sizeof(float)));
  auto& block = state_->block;
  for (std::size_t begin = 0; begin < rows.size();) {
    std::size_t count = 1;  // of rows that lie side by side in the file
    while (begin + count < rows.size() && count < rows_per_block &&
           rows[begin + count] == rows[begin] + static_cast<std::int64_t>(count))
      ++count;
    block.resize(count * 2 * length);
    read_rows(state_->x, static_cast<std::uint64_t>(rows[begin]), count, H5T_NATIVE_FLOAT, block.data());
    for (std::size_t i = 0; i < count; ++i) {
      const std::span<float> frame = out.subspan((begin + i) * 2 * length, 2 * length);
      const float* pairs = block.data() + i * 2 * length;
      for (std::size_t sample = 0; sample < length; ++sample) {
        frame[sample] = pairs[2 * sample];
        frame[length + sample] = pairs[2 * sample + 1];
      }
      if (const auto bad = first_not_finite(frame))
        refuse(state_->x, concat(", row ", rows[begin + i], ": sample ", *bad, " is not finite (", frame[*bad], ", ",
                                 frame[length + *bad], ")"));
    }
    begin += count;
  }
}

Dataset load_frames(RadioMlReader& reader, std::span<const std::int64_t> rows) {
  const auto frame_size = static_cast<std::size_t>(reader.frame_length()) * 2;
  Dataset dataset{.sample_shape = {2, reader.frame_length()}, .class_names = reader.class_names()};
  dataset.samples.resize(rows.size() * frame_size);
  reader.read(rows, dataset.samples);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto row = static_cast<std::size_t>(rows[i]);
    scale_to_unit_power(std::span(dataset.samples).subspan(i * frame_size, frame_size));
    dataset.labels.push_back(reader.labels()[row]);
    dataset.groups.push_back(reader.snrs_db()[row]);
  }
  return dataset;
}

}  // namespace podaq
