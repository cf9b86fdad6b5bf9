#include "podaq/data/iq_format.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "podaq/core/error.h"

namespace podaq {
namespace {

std::vector<std::complex<float>> decoded(const char* datatype, const std::vector<unsigned>& bytes) {
  const IqFormat format = parse_iq_format(datatype, "test");
  std::vector<std::byte> input;
  for (const unsigned byte : bytes) input.push_back(static_cast<std::byte>(byte));
  std::vector<std::complex<float>> out(input.size() / sample_bytes(format));
  decode_iq(format, input, sample_bytes(format), out);
  return out;
}

using Samples = std::vector<std::complex<float>>;

TEST(IqFormat, FullScaleIsOneAndByteOrderIsKept) {
  EXPECT_EQ(decoded("ci8", {0x80, 0x40}), (Samples{{-1, 0.5F}}));
  EXPECT_EQ(decoded("cu8", {0x00, 0xC0, 0x80, 0x80}), (Samples{{-1, 0.5F}, {0, 0}}));
  EXPECT_EQ(decoded("ci16_le", {0x00, 0x80, 0x00, 0x40}), (Samples{{-1, 0.5F}}));
  EXPECT_EQ(decoded("ci16_be", {0x80, 0x00, 0x40, 0x00}), (Samples{{-1, 0.5F}}));
  EXPECT_EQ(decoded("cu16_be", {0x00, 0x00, 0xC0, 0x00}), (Samples{{-1, 0.5F}}));
  EXPECT_EQ(decoded("ci32_le", {0, 0, 0, 0x80, 0, 0, 0, 0x40}), (Samples{{-1, 0.5F}}));
  EXPECT_EQ(decoded("cu32_be", {0, 0, 0, 0, 0xC0, 0, 0, 0}), (Samples{{-1, 0.5F}}));
  EXPECT_EQ(decoded("cf32_le", {0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0}), (Samples{{1, -2}}));
  EXPECT_EQ(decoded("cf32_be", {0x3F, 0x80, 0, 0, 0xC0, 0, 0, 0}), (Samples{{1, -2}}));
  EXPECT_EQ(decoded("cf64_be", {0x3F, 0xF0, 0, 0, 0, 0, 0, 0, 0xC0, 0, 0, 0, 0, 0, 0, 0}), (Samples{{1, -2}}));
}

TEST(IqFormat, GapsOfNanStayNan) {
  EXPECT_TRUE(std::isnan(decoded("cf32_le", {0, 0, 0xC0, 0x7F, 0, 0, 0, 0})[0].real()));
}

TEST(IqFormat, AStridePicksOneOfInterleavedChannels) {
  std::array<std::byte, 6> bytes = {};
  bytes[0] = std::byte{0x40};
  bytes[4] = std::byte{0x20};
  Samples out(2);
  decode_iq({.number = IqNumber::int8}, bytes, 4, out);
  EXPECT_EQ(out, (Samples{{0.5F, 0}, {0.25F, 0}}));
}

TEST(IqFormat, RefusesWhatIsNoComplexFormat) {
  for (const char* word : {"", "c", "f32_le", "cf32", "cf32_", "cf32_xe", "ci8_le", "cu8_be", "cf16_le", "ci64_le",
                           "xf32_le", "cf32_le ", "CF32_LE", "ci1"}) {
    try {
      (void)parse_iq_format(word, "global.core:datatype");
      ADD_FAILURE() << word;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::format) << word;
      EXPECT_NE(std::string(error.what()).find("global.core:datatype"), std::string::npos);
    }
  }
  try {
    (void)parse_iq_format("rf32_le", "test");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
  }
}

}  // namespace
}  // namespace podaq
