#include "format/models.h"

#include <gtest/gtest.h>

#include <cmath>

#include "format/bits.h"
#include "format/predictor.h"
#include "podaq/core/crc32c.h"
#include "support/random_graph.h"

namespace podaq::format {
namespace {

Bytes random_bytes(test::Draws& draws, std::size_t count, int lowest, int highest) {
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(draws.integer(lowest, highest));
  return bytes;
}

void expect_round_trip(SectionKind kind, const Bytes& bytes, const StreamShape& shape = {}) {
  const Bytes stored = encode_adaptive(kind, bytes, shape);
  Bytes decoded(bytes.size());
  EXPECT_TRUE(decode_adaptive(kind, stored, shape, decoded));
  EXPECT_EQ(decoded, bytes);

  Bytes longer = stored;
  longer.resize(stored.size() + 5, std::byte{1});
  EXPECT_FALSE(decode_adaptive(kind, longer, shape, decoded)) << "trailing bytes must not pass";
}

TEST(BinaryCoder, BitsOfEveryProbabilityComeBack) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    std::vector<std::pair<bool, Probability>> decisions;
    test::Draws draws(seed);
    for (int i = 0; i < 2000; ++i) {
      // Extremes are where carries and long runs of settled bytes come from.
      const auto one = draws.chance(0.3)   ? Probability{1}
                       : draws.chance(0.4) ? Probability{65535}
                                           : static_cast<Probability>(draws.integer(1, 65535));
      decisions.emplace_back(draws.chance(one / 65536.0), one);
    }
    BinaryEncoder encoder;
    for (const auto& [bit, one] : decisions) encoder.code(bit, one);
    const Bytes stored = encoder.finish();
    BinaryDecoder decoder(stored);
    for (const auto& [bit, one] : decisions) ASSERT_EQ(decoder.code(false, one), bit);
    EXPECT_TRUE(decoder.has_read_everything());
  }
}

TEST(BinaryCoder, ImprobableBitsComeBack) {
  for (const bool bit : {false, true}) {
    BinaryEncoder encoder;
    for (int i = 0; i < 300; ++i) encoder.code(bit, bit ? 1 : 65535);
    const Bytes stored = encoder.finish();
    BinaryDecoder decoder(stored);
    for (int i = 0; i < 300; ++i) ASSERT_EQ(decoder.code(false, bit ? 1 : 65535), bit);
  }
}

TEST(Models, NothingTakesNothing) {
  for (const SectionKind kind : {SectionKind::graph, SectionKind::masks, SectionKind::codes, SectionKind::scales})
    EXPECT_TRUE(encode_adaptive(kind, {}, {}).empty());
}

TEST(Models, BytesAndNumbersComeBack) {
  test::Draws draws(1);
  for (const std::size_t count : {1, 2, 3, 4, 100, 4096, 20000}) {
    SCOPED_TRACE(count);
    expect_round_trip(SectionKind::graph, random_bytes(draws, count, 0, 255));
    expect_round_trip(SectionKind::graph, random_bytes(draws, count, 0, 3));
    expect_round_trip(SectionKind::packed_codes, random_bytes(draws, count, 0, 255));
    expect_round_trip(SectionKind::floats, random_bytes(draws, 4 * count, 0, 255));
    expect_round_trip(SectionKind::integers, random_bytes(draws, 4 * count, 250, 255));
    expect_round_trip(SectionKind::graph, Bytes(count));
  }
}

TEST(Models, MasksAndCodesOfAnyShapeComeBack) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    test::Draws draws(seed);
    StreamShape masks;
    std::size_t bits = 0;
    for (int tensor = 0; tensor < 4; ++tensor) {
      masks.tensors.push_back({.rows = static_cast<std::size_t>(draws.integer(1, 20)),
                               .channels = static_cast<std::size_t>(draws.integer(1, 20)),
                               .taps = static_cast<std::size_t>(draws.integer(1, 20)),
                               .masked = true,
                               .first_mask_bit = bits});
      bits += masks.tensors.back().count();
    }
    Bytes mask((bits + 7) / 8);
    std::size_t ones = 0;
    for (std::size_t i = 0; i < bits; ++i) {
      set_bit(mask, i, draws.chance(0.2));
      ones += get_bit(mask, i) ? 1 : 0;
    }
    expect_round_trip(SectionKind::masks, mask, masks);

    StreamShape codes = masks;
    codes.masks = mask;
    codes.tensors.push_back({.rows = 3, .channels = 5, .taps = 7, .masked = false, .first_mask_bit = bits});
    expect_round_trip(SectionKind::codes, random_bytes(draws, ones + 105, -127, 127), codes);
  }
}

double bits_of(double probability) {
  return -probability * std::log2(probability) - (1 - probability) * std::log2(1 - probability);
}

// Of independent bits and codes nothing can save more than their entropy; the models must not lose much to it.
TEST(Models, StayNearTheEntropyOfIndependentDraws) {
  test::Draws draws(9);
  StreamShape shape{.tensors = {{.rows = 128, .channels = 128, .taps = 3, .masked = true}}, .masks = {}};
  const std::size_t count = shape.tensors[0].count();
  Bytes mask(count / 8);
  std::size_t ones = 0;
  for (std::size_t i = 0; i < count; ++i) {
    set_bit(mask, i, draws.chance(0.1));
    ones += get_bit(mask, i) ? 1 : 0;
  }
  const double mask_bound = static_cast<double>(count) * bits_of(0.1) / 8;
  EXPECT_LT(static_cast<double>(encode_adaptive(SectionKind::masks, mask, shape).size()), 1.03 * mask_bound);

  shape.masks = mask;
  Bytes codes = random_bytes(draws, ones, 1, 32);
  EXPECT_LT(static_cast<double>(encode_adaptive(SectionKind::codes, codes, shape).size()),
            1.03 * static_cast<double>(ones) * 5 / 8);
}

TEST(Models, FindDenseColumns) {
  test::Draws draws(9);
  StreamShape shape{.tensors = {{.rows = 64, .channels = 64, .taps = 3, .masked = true}}, .masks = {}};
  Bytes even(64 * 192 / 8);
  Bytes columns(64 * 192 / 8);
  for (std::size_t i = 0; i < 8 * even.size(); ++i) {
    set_bit(even, i, draws.chance(0.2));
    set_bit(columns, i, draws.chance(i % 192 / 3 % 4 == 0 ? 0.65 : 0.05));  // As many ones in all.
  }
  EXPECT_LT(encode_adaptive(SectionKind::masks, columns, shape).size(),
            encode_adaptive(SectionKind::masks, even, shape).size() * 7 / 10);
}

// The tables are part of the file format: a change makes every file unreadable.
TEST(Models, TablesAreWhatFilesWereWrittenWith) {
  EXPECT_EQ(crc32c(std::as_bytes(std::span(predictor_detail::probabilities))), 3974152141U);
  EXPECT_EQ(crc32c(std::as_bytes(std::span(predictor_detail::log_odds))), 1632107354U);
  EXPECT_EQ(crc32c(std::as_bytes(std::span(predictor_detail::steps))), 4198723595U);
}

TEST(Models, ProbabilitiesAreLogistic) {
  for (int x = -2047; x <= 2047; x += 89) {
    const double expected = 65536.0 / (1.0 + std::exp(-x / 256.0));
    EXPECT_NEAR(predictor_detail::probabilities[static_cast<std::size_t>(x + 2048)], expected, 1.5) << x;
  }
  for (int p = 300; p < 65236; p += 1024) {
    const double expected = 256.0 * std::log(p / (65536.0 - p));
    EXPECT_NEAR(predictor_detail::log_odds[static_cast<std::size_t>(p >> 4)], expected, 16.0) << p;
  }
}

}  // namespace
}  // namespace podaq::format
