#include "podaq/data/iq_stream.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "podaq/core/cancellation.h"
#include "podaq/core/error.h"
#include "support/expect_refused.h"
#include "support/temporary_folder.h"

namespace podaq {
namespace {

constexpr IqFormat bytes_format = {.number = IqNumber::int8};

/// A file of `size` bytes that count 0, 1, 2, …, 127, 0, …
std::filesystem::path counting_file(const std::filesystem::path& folder, std::size_t size) {
  std::string content(size, '\0');
  for (std::size_t i = 0; i < size; ++i) content[i] = static_cast<char>(i % 128);
  std::ofstream(folder / "samples.ci8", std::ios::binary) << content;
  return folder / "samples.ci8";
}

/// The bytes that the in-phase parts were.
std::vector<int> read_all(IqStream& stream, std::size_t piece) {
  std::vector<int> all;
  std::vector<std::complex<float>> samples(piece);
  while (true) {
    const std::size_t count = stream.read(samples);
    for (std::size_t i = 0; i < count; ++i) all.push_back(static_cast<int>(samples[i].real() * 128));
    if (count < piece && !stream.next_segment()) return all;
  }
}

using test::expect_refused;

TEST(IqStream, PiecesDoNotMatter) {
  const test::TemporaryFolder folder;
  constexpr std::size_t samples = 100'000;  // more than one block
  const auto path = counting_file(folder.path(), 2 * samples);
  for (const std::size_t piece : {1U, 7U, 1024U, 99'999U, 300'000U}) {
    IqStream stream(path, {.format = bytes_format});
    const auto all = read_all(stream, piece);
    ASSERT_EQ(all.size(), samples);
    EXPECT_EQ(stream.position(), samples);
    for (std::size_t i = 0; i < samples; ++i) ASSERT_EQ(all[i], static_cast<int>(2 * i % 128)) << i;
  }
}

TEST(IqStream, SegmentsSkipTheirHeadersAndChannelsAreKeptApart) {
  const test::TemporaryFolder folder;
  const auto path = counting_file(folder.path(), 100);
  const std::vector<IqSegment> segments = {{.header_bytes = 3, .samples = 2}, {.header_bytes = 5}};
  IqStream first(path, {.format = bytes_format, .channels = 2, .channel = 0, .segments = segments});
  IqStream second(path, {.format = bytes_format, .channels = 2, .channel = 1, .segments = segments});
  std::vector<int> expected = {3, 7};
  for (int byte = 16; byte < 100; byte += 4) expected.push_back(byte);
  EXPECT_EQ(read_all(first, 4), expected);
  for (int& byte : expected) byte += 2;
  EXPECT_EQ(read_all(second, 4), expected);
}

TEST(IqStream, AnEndWithinASampleNamesTheByte) {
  const test::TemporaryFolder folder;
  const auto path = counting_file(folder.path(), 24 + 2 * 10 + 1);
  IqStream stream(path, {.format = bytes_format, .segments = {{.header_bytes = 24}}});
  expect_refused([&] { read_all(stream, 4); }, {path.string(), "1 bytes are left over at byte 44"});
}

TEST(IqStream, AnEndWithinASegmentOrHeaderNamesTheByte) {
  const test::TemporaryFolder folder;
  const auto path = counting_file(folder.path(), 20);
  IqStream stream(path, {.format = bytes_format, .segments = {{.samples = 11}}});
  expect_refused([&] { read_all(stream, 4); }, {path.string(), "byte 20", "1 samples before the end of capture 0"});
  expect_refused([&] { IqStream(path, {.format = bytes_format, .segments = {{.header_bytes = 21}}}); },
                 {path.string(), "byte 20", "21 bytes to skip"});
}

TEST(IqStream, RefusesLayoutsBeforeReading) {
  const auto refuse = [](const IqLayout& layout, const char* field) {
    expect_refused([&] { IqStream(0, "standard input", layout); }, {field}, ErrorCode::invalid_argument);
  };
  refuse({.channels = 0}, "IqLayout.channels");
  refuse({.channels = 2, .channel = 2}, "IqLayout.channel");
  refuse({.channel = -1}, "IqLayout.channel");
  refuse({.segments = {}}, "IqLayout.segments");
  refuse({.segments = {{}, {}}}, "IqLayout.segments[0]");
  expect_refused([] { IqStream(std::filesystem::path("/no/such/file"), {}); }, {"/no/such/file"}, ErrorCode::io);
}

/// A pipe whose writing end the test holds.
struct Pipe {
  Pipe() { EXPECT_EQ(::pipe(ends.data()), 0); }
  ~Pipe() {
    ::close(ends[0]);
    if (ends[1] >= 0) ::close(ends[1]);
  }
  void write(std::string_view bytes) const {
    EXPECT_EQ(::write(ends[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  std::array<int, 2> ends = {};
};

TEST(IqStream, SamplesOfAPipeAreThereAsSoonAsTheirBytesAre) {
  const Pipe pipe;
  IqStream stream(pipe.ends[0], "pipe", {.format = bytes_format});
  pipe.write("abc");
  std::vector<std::complex<float>> samples(1);
  EXPECT_EQ(stream.read(samples), 1U);  // would wait for ever if it asked for a whole block
  EXPECT_EQ(samples[0], (std::complex<float>('a' / 128.0F, 'b' / 128.0F)));
  pipe.write("d");
  EXPECT_EQ(stream.read(samples), 1U);
  EXPECT_EQ(samples[0], (std::complex<float>('c' / 128.0F, 'd' / 128.0F)));
}

TEST(IqStream, WaitingEndsWhenTheUserAsksToStop) {
  const Pipe pipe;
  const CancellationScope scope;
  IqStream stream(pipe.ends[0], "pipe", {.format = bytes_format});
  ::raise(SIGINT);
  std::vector<std::complex<float>> samples(1);
  expect_refused([&] { stream.read(samples); }, {"stopped"}, ErrorCode::cancelled);
}

}  // namespace
}  // namespace podaq
