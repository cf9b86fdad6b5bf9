#include "podaq/data/radioml_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <numeric>
#include <ostream>

#include "data/raw_hdf5.h"
#include "podaq/core/error.h"
#include "support/temporary_folder.h"

namespace podaq {
namespace {

/// What a small file holds; a test breaks one part of it. Frame i, sample s is (i + s/8, -i - s/8), class i % 24, SNR
/// −20 + 2·(i % 26).
struct Parts {
  hsize_t rows = 30;
  hsize_t length = 8;
  hsize_t columns = 24;
  std::vector<float> x = {};
  std::vector<std::int64_t> y = {};
  std::vector<std::int64_t> z = {};

  Parts() {
    for (hsize_t row = 0; row < rows; ++row) {
      for (hsize_t sample = 0; sample < length; ++sample) {
        const float value = static_cast<float>(row) + static_cast<float>(sample) / 8;
        x.insert(x.end(), {value, -value});
      }
      for (hsize_t column = 0; column < columns; ++column) y.push_back(column == row % columns ? 1 : 0);
      z.push_back(-20 + 2 * static_cast<std::int64_t>(row % 26));
    }
  }

  void write(const std::filesystem::path& path, const Hdf5Properties& creation = {}) const {
    const test::RawHdf5 file(path);
    file.add_floats("X", {rows, length, 2}, x, creation);
    file.add_integers("Y", {rows, columns}, y);
    file.add_integers("Z", {rows, 1}, z);
  }
};

class RadioMlFile : public testing::Test {
 protected:
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  /// The error that reading the whole file gives, which must name the file; "" if there is none.
  [[nodiscard]] std::string refusal(ErrorCode code = ErrorCode::format) const {
    try {
      RadioMlReader reader(path_);
      std::vector<std::int64_t> rows(static_cast<std::size_t>(reader.size()));
      std::iota(rows.begin(), rows.end(), 0);
      (void)load_frames(reader, rows);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_NE(std::string(error.what()).find(path_.string()), std::string::npos) << error.what();
      return error.what();
    }
    return "";
  }

  void expect_refused(const std::vector<std::string>& words, ErrorCode code = ErrorCode::format) const {
    const std::string text = refusal(code);
    EXPECT_FALSE(text.empty());
    for (const auto& word : words) EXPECT_NE(text.find(word), std::string::npos) << "no '" << word << "' in: " << text;
  }

 private:
  test::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "set.hdf5";
};

TEST_F(RadioMlFile, FramesComeBackInAnyOrderAsRowsOfInPhaseThenQuadrature) {
  Parts().write(path());
  RadioMlReader reader(path());
  EXPECT_EQ(reader.size(), 30);
  EXPECT_EQ(reader.frame_length(), 8);
  const std::vector<std::int64_t> rows = {29, 3, 4, 5, 0, 3};
  std::vector<float> frames(rows.size() * 16);
  reader.read(rows, frames);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t sample = 0; sample < 8; ++sample) {
      const float expected = static_cast<float>(rows[i]) + static_cast<float>(sample) / 8;
      EXPECT_EQ(frames[i * 16 + sample], expected) << i << " " << sample;
      EXPECT_EQ(frames[i * 16 + 8 + sample], -expected) << i << " " << sample;
    }
    EXPECT_EQ(reader.labels()[static_cast<std::size_t>(rows[i])], rows[i] % 24);
    EXPECT_EQ(reader.snrs_db()[static_cast<std::size_t>(rows[i])], -20 + 2 * (rows[i] % 26));
  }
}

TEST_F(RadioMlFile, AFileWithoutClassNamesHasTheTrueOrderOf2018) {
  Parts().write(path());
  const RadioMlReader reader(path());
  ASSERT_EQ(reader.class_names().size(), 24U);
  EXPECT_EQ(reader.class_names()[0], "OOK");
  EXPECT_EQ(reader.class_names()[4], "QPSK");
  EXPECT_EQ(reader.class_names()[11], "128APSK");
  EXPECT_EQ(reader.class_names()[17], "AM-SSB-WC");
  EXPECT_EQ(reader.class_names()[23], "OQPSK");
  EXPECT_EQ(reader.snr_grid().size(), 26U);
}

TEST_F(RadioMlFile, ChunkedAndCompressedFilesReadAlike) {
  const Parts parts;
  parts.write(path());
  std::vector<float> plain(30 * 16), compressed(plain.size());
  std::vector<std::int64_t> rows(30);
  std::iota(rows.begin(), rows.end(), 0);
  RadioMlReader(path()).read(rows, plain);
  parts.write(path(), test::deflated({7, 8, 2}, 6));
  RadioMlReader(path()).read(rows, compressed);
  EXPECT_EQ(plain, compressed);
}

TEST_F(RadioMlFile, DatasetsHaveFramesOfPowerOneWithLabelAndSnr) {
  Parts().write(path());
  RadioMlReader reader(path());
  const std::vector<std::int64_t> rows = {7, 2};
  const Dataset dataset = load_frames(reader, rows);
  validate(dataset, "loaded");
  EXPECT_EQ(dataset.sample_shape, (std::vector<std::int64_t>{2, 8}));
  EXPECT_EQ(dataset.labels, (std::vector<std::int32_t>{7, 2}));
  EXPECT_EQ(dataset.groups, (std::vector<std::int32_t>{-6, -16}));
  for (std::int64_t i = 0; i < 2; ++i) {
    double power = 0;
    for (const float value : dataset.sample(i)) power += value * value;
    EXPECT_NEAR(power / 8, 1, 1e-6);
  }
  EXPECT_NEAR(dataset.samples[1] / dataset.samples[0], 7.125 / 7, 1e-6);
}

TEST_F(RadioMlFile, FilesThatAreNoHdf5OrTruncatedAreRefused) {
  std::ofstream(path()) << "no HDF5 at all";
  expect_refused({"not an HDF5 file"});
  Parts().write(path());
  const auto whole = std::filesystem::file_size(path());
  for (const auto size : {whole - 1, whole / 2, whole / 4, std::uintmax_t{100}, std::uintmax_t{8}, std::uintmax_t{0}}) {
    std::filesystem::resize_file(path(), size);
    EXPECT_NE(refusal(), "") << size;
  }
  std::filesystem::remove(path());
  expect_refused({"no such regular file"}, ErrorCode::io);
}

/// A file with one fault, and the words that the error must hold.
struct Flaw {
  std::string name;
  std::function<void(const std::filesystem::path&)> write;
  std::vector<std::string> words;

  friend void PrintTo(const Flaw& flaw, std::ostream* out) { *out << flaw.name; }
};

class FlawedRadioMlFile : public RadioMlFile, public testing::WithParamInterface<Flaw> {};

TEST_P(FlawedRadioMlFile, IsRefusedWithDatasetAndRow) {
  GetParam().write(path());
  expect_refused(GetParam().words);
}

std::function<void(const std::filesystem::path&)> changed(const std::function<void(Parts&)>& change) {
  return [change](const std::filesystem::path& path) {
    Parts parts;
    change(parts);
    parts.write(path);
  };
}

std::function<void(const std::filesystem::path&)> made(
    const std::function<void(const test::RawHdf5&, const Parts&)>& make) {
  return [make](const std::filesystem::path& path) { make(test::RawHdf5(path), Parts()); };
}

const float nan = std::numeric_limits<float>::quiet_NaN();

INSTANTIATE_TEST_SUITE_P(
    Flaws, FlawedRadioMlFile,
    testing::Values(Flaw{"NoX",
                         made([](const auto& file, const Parts& p) {
                           file.add_integers("Y", {30, 24}, p.y);
                           file.add_integers("Z", {30, 1}, p.z);
                         }),
                         {"'X'", "missing"}},
                    Flaw{"NoZ",
                         made([](const auto& file, const Parts& p) {
                           file.add_floats("X", {30, 8, 2}, p.x);
                           file.add_integers("Y", {30, 24}, p.y);
                         }),
                         {"'Z'", "missing"}},
                    Flaw{"XOfRank2",
                         made([](const auto& file, const Parts& p) {
                           file.add_floats("X", {30, 16}, p.x);
                         }),
                         {"'X'", "(30, 16)", "3 dimensions"}},
                    Flaw{"XTransposed",
                         made([](const auto& file, const Parts& p) {
                           file.add_floats("X", {30, 2, 8}, p.x);
                           file.add_integers("Y", {30, 24}, p.y);
                           file.add_integers("Z", {30, 1}, p.z);
                         }),
                         {"'X'", "8", "last dimension"}},
                    Flaw{"XOfIntegers",
                         made([](const auto& file, const Parts&) {
                           file.add_integers("X", {1, 1, 2}, {1, 2});
                         }),
                         {"'X'", "integers", "floats"}},
                    Flaw{"XOfDoubles",
                         made([](const auto& file, const Parts& p) {
                           file.add("X", H5T_IEEE_F64LE, {30, 8, 2}, H5T_NATIVE_FLOAT, p.x.data());
                           file.add_integers("Y", {30, 24}, p.y);
                           file.add_integers("Z", {30, 1}, p.z);
                         }),
                         {"'X'", "8 bytes"}},
                    Flaw{"YOfFloats",
                         made([](const auto& file, const Parts& p) {
                           file.add_floats("X", {30, 8, 2}, p.x);
                           file.add_floats("Y", {30, 1}, std::vector<float>(30, 1));
                         }),
                         {"'Y'", "floats", "integers"}},
                    Flaw{"Empty",
                         made([](const auto& file, const Parts&) {
                           file.add_floats("X", {0, 8, 2}, {});
                         }),
                         {"'X'", "empty"}},
                    Flaw{"RowsOfYDisagree",
                         made([](const auto& file, const Parts& p) {
                           file.add_floats("X", {30, 8, 2}, p.x);
                           file.add_integers("Y", {29, 24}, p.y);
                           file.add_integers("Z", {30, 1}, p.z);
                         }),
                         {"'Y'", "29 rows", "30"}},
                    Flaw{"RowsOfZDisagree",
                         made([](const auto& file, const Parts& p) {
                           file.add_floats("X", {30, 8, 2}, p.x);
                           file.add_integers("Y", {30, 24}, p.y);
                           file.add_integers("Z", {29, 1}, std::vector<std::int64_t>(29));
                         }),
                         {"'Z'", "29 rows", "30"}},
                    Flaw{"ZOfTwoColumns",
                         made([](const auto& file, const Parts& p) {
                           file.add_floats("X", {30, 8, 2}, p.x);
                           file.add_integers("Y", {30, 24}, p.y);
                           file.add_integers("Z", {30, 2}, std::vector<std::int64_t>(60));
                         }),
                         {"'Z'", "2 columns"}},
                    Flaw{"ElevenUnnamedClasses",
                         made([](const auto& file, const Parts& p) {
                           file.add_floats("X", {30, 8, 2}, p.x);
                           std::vector<std::int64_t> y(330);
                           for (std::size_t i = 0; i < 30; ++i) y[i * 11] = 1;
                           file.add_integers("Y", {30, 11}, y);
                           file.add_integers("Z", {30, 1}, p.z);
                         }),
                         {"'Y'", "11 columns", "'classes'"}},
                    Flaw{"GridNotAscending",
                         made([](const auto& file, const Parts& p) {
                           file.add_floats("X", {30, 8, 2}, p.x);
                           file.add_integers("Y", {30, 24}, p.y);
                           file.add_integers("Z", {30, 1}, p.z);
                           file.add_integers("snrs", {2}, {0, 0});
                         }),
                         {"'snrs'", "ascending"}},
                    Flaw{"ClassesOfNumbers",
                         made([](const auto& file, const Parts& p) {
                           file.add_floats("X", {30, 8, 2}, p.x);
                           file.add_integers("Y", {30, 24}, p.y);
                           file.add_integers("Z", {30, 1}, p.z);
                           file.add_integers("classes", {24}, std::vector<std::int64_t>(24));
                         }),
                         {"'classes'", "strings"}},
                    Flaw{"TwoOnes", changed([](Parts& p) { p.y[3 * 24 + 7] = 1; }), {"'Y'", "row 3:", "one-hot"}},
                    Flaw{"NoOne", changed([](Parts& p) { p.y[4 * 24 + 4] = 0; }), {"'Y'", "row 4:", "one-hot"}},
                    Flaw{"ATwo", changed([](Parts& p) { p.y[5 * 24 + 9] = 2; }), {"'Y'", "row 5:", "one-hot"}},
                    Flaw{"OddSnr", changed([](Parts& p) { p.z[9] = 3; }), {"'Z'", "row 9:", "3 dB"}},
                    Flaw{"HugeSnr", changed([](Parts& p) { p.z[10] = std::int64_t{1} << 40; }), {"'Z'", "row 10:"}},
                    Flaw{"InfiniteSample",
                         changed([](Parts& p) { p.x[11 * 16 + 2 * 5 + 1] = std::numeric_limits<float>::infinity(); }),
                         {"'X'", "row 11:", "sample 5"}}),
    [](const auto& flaw) { return flaw.param.name; });

// Gaps of a recording come as NaN; none may reach a training.
TEST_F(RadioMlFile, Case59ANanInRow3IsRefusedWithFileDatasetAndRow) {
  Parts parts;
  parts.x[3 * 16 + 2 * 6] = nan;
  parts.write(path());
  expect_refused({path().string(), "'X'", "row 3:", "sample 6"});
  RadioMlReader reader(path());
  const std::vector<std::int64_t> others = {0, 1, 2, 4, 5};
  EXPECT_EQ(load_frames(reader, others).size(), 5);
}

// Sizes that a file only announces must not be allocated: an allocation of these would fail at once.
TEST_F(RadioMlFile, HostileSizesAreRefusedBeforeAnythingIsAllocated) {
  const hsize_t huge = hsize_t{1} << 45;
  {
    const test::RawHdf5 file(path());
    file.add("X", H5T_IEEE_F32LE, {huge, 8, 2}, 0, nullptr);
  }
  expect_refused({"'X'", "needs more bytes than"});
  {
    const test::RawHdf5 file(path());
    file.add("X", H5T_IEEE_F32LE, {huge, 8, 2}, 0, nullptr, test::deflated({64, 8, 2}, 9));
  }
  expect_refused({"'X'", "needs more bytes than"});
  {
    const test::RawHdf5 file(path());
    file.add("X", H5T_IEEE_F32LE, {huge, 8, 2}, 0, nullptr, test::deflated({1 << 22, 8, 2}, 9));
  }
  expect_refused({"'X'", "one chunk needs"});
  {
    const Parts parts;
    const test::RawHdf5 file(path());
    file.add_floats("X", {30, 8, 2}, parts.x);
    file.add("Y", H5T_STD_I64LE, {30, huge}, 0, nullptr);
  }
  expect_refused({"'Y'", "needs more bytes than"});
}

TEST_F(RadioMlFile, BytesChangedAtRandomAreRefusedOrReadButNeverCrash) {
  Parts().write(path());
  std::ifstream stream(path(), std::ios::binary);
  const std::string original((std::istreambuf_iterator<char>(stream)), {});
  std::uint32_t state = 1;
  const auto random = [&state] { return (state = state * 1664525U + 1013904223U) >> 8; };
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    std::string bytes = original;
    // The structures lie in front of the data.
    for (std::uint32_t i = 0; i < 1 + random() % 4; ++i) bytes[random() % 3000] = static_cast<char>(random());
    std::ofstream(path(), std::ios::binary) << bytes;
    try {
      RadioMlReader reader(path());
      const std::vector<std::int64_t> rows = {0, reader.size() - 1};
      (void)load_frames(reader, rows);
    } catch (const Error& error) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 50);
}

TEST_F(RadioMlFile, RowsAndBuffersOutOfRangeAreRefused) {
  Parts().write(path());
  RadioMlReader reader(path());
  std::vector<float> frame(16);
  for (const std::int64_t row : {std::int64_t{-1}, std::int64_t{30}}) {
    EXPECT_THROW(reader.read(std::vector{row}, frame), Error);
  }
  frame.pop_back();
  EXPECT_THROW(reader.read(std::vector<std::int64_t>{0}, frame), Error);
  reader.read({}, {});
}

}  // namespace
}  // namespace podaq
