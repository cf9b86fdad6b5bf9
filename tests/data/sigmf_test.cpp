#include "podaq/data/sigmf.h"

#include <gtest/gtest.h>

#include <complex>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "support/expect_refused.h"
#include "support/temporary_folder.h"

namespace podaq {
namespace {

using test::expect_refused;

/// Metadata of cf32 samples with what comes after "core:datatype", and the two arrays' elements.
std::string metadata(const std::string& global, const std::string& captures = "", const std::string& annotations = "") {
  return concat(R"({"global":{"core:version":"1.2.0","core:datatype":"cf32_le")", global, R"(},"captures":[)", captures,
                R"(],"annotations":[)", annotations, "]}");
}

SigMfRecording parse(const std::string& text, std::uint64_t samples) {
  return parse_sigmf(text, "a.sigmf-meta", samples * 8);
}

TEST(SigMf, Case55IndicesIncludeTheRecordingsOffset) {
  const auto with = [](const std::string& annotation) {
    return parse(metadata(R"(,"core:offset":10000)", R"({"core:sample_start":10000})", annotation), 2000);
  };
  const auto recording =
      with(R"({"core:sample_start":10500,"core:sample_count":128,"core:label":"QPSK"},{"core:sample_start":11900})");
  ASSERT_EQ(recording.annotations.size(), 2U);
  const SigMfLabels labels(recording);
  EXPECT_EQ(recording.annotations[0].first_sample, 500U);
  EXPECT_EQ(recording.annotations[0].sample_count, 128U);
  EXPECT_EQ(labels.covering(500, 128), "QPSK");
  EXPECT_EQ(labels.covering(499, 128), "");
  EXPECT_EQ(labels.covering(501, 128), "");
  EXPECT_EQ(recording.annotations[1].first_sample, 1900U);
  EXPECT_EQ(recording.annotations[1].sample_count, 100U);
  for (const char* start : {"9999", "500", "12001"})
    expect_refused([&] { with(concat(R"({"core:sample_start":10000},{"core:sample_start":)", start, "}")); },
                   {"a.sigmf-meta", "annotations[1].core:sample_start", start});
  expect_refused([&] { with(R"({"core:sample_start":11900,"core:sample_count":101})"); },
                 {"annotations[0].core:sample_count", "12000"});
}

TEST(SigMf, LabelsAreFoundAmongOverlappingOnes) {
  const auto recording = parse(metadata("", "", R"({"core:sample_start":50,"core:sample_count":10,"core:label":"inner"},
                          {"core:sample_start":0,"core:sample_count":40,"core:label":"first"},
                          {"core:sample_start":20,"core:sample_count":80,"core:label":"outer"},
                          {"core:sample_start":0})"),
                               1000);
  const SigMfLabels labels(recording);
  EXPECT_EQ(labels.covering(0, 40), "first");
  EXPECT_EQ(labels.covering(0, 41), "");
  EXPECT_EQ(labels.covering(20, 30), "outer");
  EXPECT_EQ(labels.covering(52, 4), "outer");
  EXPECT_EQ(labels.covering(52, 48), "outer");
  EXPECT_EQ(labels.covering(52, 49), "");
  EXPECT_EQ(labels.covering(100, 1), "");
  EXPECT_EQ(SigMfLabels({}).covering(0, 1), "");
}

TEST(SigMf, Case56ChannelsAreReadOneByOne) {
  const test::TemporaryFolder folder;
  std::vector<std::complex<float>> samples;
  for (int i = 0; i < 256; ++i) {
    samples.emplace_back(1.0F, 0.0F);
    samples.emplace_back(0.0F, 1.0F);
  }
  const auto write = [&](std::size_t bytes) {
    std::ofstream(folder.path() / "two.sigmf-data", std::ios::binary)
        .write(reinterpret_cast<const char*>(samples.data()), static_cast<std::streamsize>(bytes));
  };
  const auto path = folder.path() / "two.sigmf-meta";
  std::ofstream(path) << metadata(R"(,"core:num_channels":2)");
  write(4096);
  const auto files = load_sigmf(path);
  EXPECT_EQ(files.recording.sample_count, 256U);
  for (int channel = 0; channel < 2; ++channel) {
    IqStream stream(files.data, layout_of(files.recording, channel));
    std::vector<std::complex<float>> out(512);
    EXPECT_EQ(stream.read(out), 256U);
    const std::complex<float> expected = channel == 0 ? std::complex(1.0F, 0.0F) : std::complex(0.0F, 1.0F);
    for (std::size_t i = 0; i < 256; ++i) ASSERT_EQ(out[i], expected) << i;
  }
  expect_refused([&] { (void)layout_of(files.recording, 2); }, {"channel is 2"}, ErrorCode::invalid_argument);
  write(4088);
  expect_refused([&] { (void)load_sigmf(path); },
                 {path.string(), "core:num_channels", "16 bytes", "8 bytes left over at byte 4080"});
}

TEST(SigMf, CapturesCoverTheDataWithTheirHeadersLeftOut) {
  const auto text = metadata(
      R"(,"core:offset":5,"core:trailing_bytes":3,"core:sample_rate":1e6)",
      R"({"core:sample_start":7,"core:header_bytes":16,"core:global_index":99,"core:frequency":-1.5},{"core:sample_start":10})");
  const auto recording = parse_sigmf(text, "a.sigmf-meta", 3 + 16 + 20 * 8);
  EXPECT_EQ(recording.sample_count, 20U);
  EXPECT_EQ(recording.sample_rate_hz, 1e6);
  ASSERT_EQ(recording.captures.size(), 3U);
  EXPECT_EQ(recording.captures[0].sample_count, 2U);  // before the first that is named
  EXPECT_EQ(recording.captures[1].first_sample, 2U);
  EXPECT_EQ(recording.captures[1].sample_count, 3U);
  EXPECT_EQ(recording.captures[1].global_index, 99U);
  EXPECT_EQ(recording.captures[1].frequency_hz, -1.5);
  EXPECT_EQ(recording.captures[2].sample_count, 15U);
  const auto layout = layout_of(recording);
  ASSERT_EQ(layout.segments.size(), 3U);
  EXPECT_EQ(layout.segments[1].header_bytes, 16U);
  EXPECT_EQ(layout.segments[2].samples, 15U);
}

TEST(SigMf, RefusesMalformedMetadataByField) {
  struct Case {
    std::string text;
    std::vector<std::string> parts;
  };
  const std::vector<Case> cases = {
      {"", {"no JSON"}},
      {"{\"global\":", {"no JSON"}},
      {"[]", {"must be an object"}},
      {"{}", {"global is missing"}},
      {R"({"global":[]})", {"global", "must be an object"}},
      {R"({"global":{}})", {"global.core:datatype is missing"}},
      {R"({"global":{"core:datatype":5}})", {"global.core:datatype must be a string"}},
      {R"({"global":{"core:datatype":"cf31_le"}})", {"global.core:datatype", "cf31_le", "cf32"}},
      {metadata(R"(,"core:num_channels":0)"), {"global.core:num_channels is 0"}},
      {metadata(R"(,"core:num_channels":18446744073709551615)"), {"global.core:num_channels"}},
      {metadata(R"(,"core:offset":-1)"), {"global.core:offset", "whole number"}},
      {metadata(R"(,"core:offset":1.5)"), {"global.core:offset", "whole number"}},
      {metadata(R"(,"core:offset":18446744073709551615)"), {"global.core:offset", "2^64"}},
      {metadata(R"(,"core:sample_rate":0)"), {"global.core:sample_rate is 0"}},
      {metadata(R"(,"core:sample_rate":"fast")"), {"global.core:sample_rate", "number"}},
      {metadata(R"(,"core:trailing_bytes":801)"), {"core:trailing_bytes", "801", "800"}},
      {metadata(R"(,"core:trailing_bytes":7)"), {"left over at byte 799"}},
      {metadata("", "5"), {"captures[0]", "must be an object"}},
      {metadata("", "{}"), {"captures[0].core:sample_start is missing"}},
      {metadata("", R"({"core:sample_start":101})"), {"captures[0].core:sample_start is 101", "100"}},
      {metadata("", R"({"core:sample_start":0},{"core:sample_start":9},{"core:sample_start":8})"),
       {"captures[2].core:sample_start is 8"}},
      {metadata("", R"({"core:sample_start":0,"core:header_bytes":18446744073709551615})"), {"core:header_bytes"}},
      {metadata(R"(,"core:offset":3)", R"({"core:sample_start":2})"), {"captures[0].core:sample_start is 2"}},
      {metadata("", "", "{}"), {"annotations[0].core:sample_start is missing"}},
      {metadata("", "", R"({"core:sample_start":0,"core:label":1})"), {"annotations[0].core:label"}},
      {metadata("", "", R"({"core:sample_start":1,"core:sample_count":18446744073709551615})"),
       {"annotations[0].core:sample_count"}},
      {R"({"global":{"core:datatype":"cf32_le"},"captures":{}})", {"captures must be an array"}},
  };
  for (const auto& [text, parts] : cases) {
    SCOPED_TRACE(text);
    auto all = parts;
    all.emplace_back("a.sigmf-meta");
    expect_refused([&] { parse(text, 100); }, all);
  }
  expect_refused([&] { parse(metadata(R"(,"core:metadata_only":true)"), 0); }, {"core:metadata_only"},
                 ErrorCode::unsupported);
}

TEST(SigMf, DataLieBesideTheMetadata) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "a.sigmf-meta";
  const auto describe = [&](const std::string& global) { std::ofstream(path) << metadata(global); };
  describe("");
  expect_refused([&] { (void)load_sigmf(path); }, {"a.sigmf-data", "do not exist"}, ErrorCode::io);
  std::ofstream(folder.path() / "raw.bin") << std::string(16, '\0');
  describe(R"(,"core:dataset":"raw.bin")");
  EXPECT_EQ(load_sigmf(path).recording.sample_count, 2U);
  for (const char* name : {"../raw.bin", "/etc/passwd", "..", "sub/raw.bin"}) {
    describe(concat(R"(,"core:dataset":")", name, "\""));
    expect_refused([&] { (void)load_sigmf(path); }, {"core:dataset", name});
  }
  expect_refused([&] { (void)load_sigmf(folder.path() / "b.sigmf-meta"); }, {"b.sigmf-meta"}, ErrorCode::io);
}

/// Whatever the bytes are: an `Error`, or a recording whose parts lie within its data.
void expect_sound(const std::string& text, std::uint64_t data_bytes) {
  SigMfRecording recording;
  try {
    recording = parse_sigmf(text, "a.sigmf-meta", data_bytes);
  } catch (const Error&) {
    return;
  }
  std::uint64_t next = 0;
  for (const auto& capture : recording.captures) {
    ASSERT_EQ(capture.first_sample, next) << text;
    next += capture.sample_count;
  }
  ASSERT_EQ(next, recording.sample_count) << text;
  ASSERT_LE(recording.sample_count, data_bytes) << text;
  for (const auto& annotation : recording.annotations) {
    ASSERT_LE(annotation.sample_count, recording.sample_count) << text;
    ASSERT_LE(annotation.first_sample, recording.sample_count - annotation.sample_count) << text;
  }
}

TEST(SigMfProperty, ChangedMetadataAreRefusedOrSound) {
  const std::string sound =
      metadata(R"(,"core:offset":100,"core:num_channels":2,"core:trailing_bytes":4,"core:sample_rate":2e6)",
               R"({"core:sample_start":100,"core:header_bytes":8,"core:global_index":7},{"core:sample_start":150})",
               R"({"core:sample_start":120,"core:sample_count":40,"core:label":"BPSK"},{"core:sample_start":160})");
  const std::uint64_t data_bytes = 8 + 4 + 90 * 16;
  ASSERT_EQ(parse_sigmf(sound, "a.sigmf-meta", data_bytes).sample_count, 90U);
  std::mt19937 random(2024);
  const std::vector<std::string> words = {"0",
                                          "-1",
                                          "18446744073709551615",
                                          "18446744073709551616",
                                          "1e999",
                                          "null",
                                          "[",
                                          "}",
                                          "\"",
                                          "\\u0000",
                                          "\xFF",
                                          "4096",
                                          "{}",
                                          ",",
                                          "150",
                                          "9e9"};
  for (int round = 0; round < 20'000; ++round) {
    std::string text = sound;
    for (std::uint32_t change = 0; change <= random() % 3; ++change) {
      const std::size_t place = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[place] = static_cast<char>(random());
          break;
        case 1:
          text.erase(place, 1 + random() % 8);
          break;
        case 2:
          text.insert(place, words[random() % words.size()]);
          break;
        default: {  // another number where one stands
          const std::size_t digit = text.find_first_of("0123456789", place);
          if (digit == std::string::npos) break;
          const std::size_t end = text.find_first_not_of("0123456789", digit);
          text.replace(digit, end - digit, words[random() % words.size()]);
        }
      }
      if (text.empty()) break;
    }
    expect_sound(text, random() % 4 == 0 ? random() % 4096 : data_bytes);
    if (HasFatalFailure()) return;
  }
}

TEST(SigMfProperty, DeepNestingIsNoCrash) {
  const std::string deep(1'000'000, '[');
  expect_sound(deep, 8);
  expect_sound(deep + std::string(deep.size(), ']'), 8);
  expect_sound(concat(R"({"global":{"core:datatype":"cf32_le","x":)", deep, std::string(deep.size(), ']'), "}}"), 8);
}

}  // namespace
}  // namespace podaq
