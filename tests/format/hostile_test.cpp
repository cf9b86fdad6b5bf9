#include <gtest/gtest.h>
#include <zstd.h>

#include <limits>

#include "format/models.h"
#include "format/sealed_file.h"
#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "podaq/format/file.h"
#include "podaq/graph/passes.h"
#include "support/random_graph.h"

namespace podaq {
namespace {

using format::Bytes;
using format::Coder;
using format::Section;
using format::SectionKind;
using test::make_table;
using test::seal;
using test::TableSpec;

constexpr std::uint32_t huge = std::numeric_limits<std::uint32_t>::max();

void expect_refused(std::span<const std::byte> file, std::string_view because, ErrorCode code = ErrorCode::format) {
  try {
    (void)decode(file);
    ADD_FAILURE() << "read, though: " << because;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(because), std::string::npos)
        << error.what() << " does not say: " << because;
  }
}

Bytes floats(std::size_t count) {
  Bytes bytes;
  for (std::size_t i = 0; i < count; ++i) format::append_number(bytes, 1.5F);
  return bytes;
}

Bytes file_of(const TableSpec& spec, std::size_t float_count = 6) {
  test::SectionBytes sections = {{SectionKind::graph, make_table(spec)}};
  if (float_count > 0) sections[SectionKind::floats] = floats(float_count);
  return seal(sections);
}

Bytes file_of_sections(const std::vector<Section>& sections) {
  return format::write_container(sections);
}

TEST(Hostile, TheHandMadeFileIsGoodAsItIs) {
  const Graph graph = decode(file_of({}));
  EXPECT_EQ(graph.tensors.at("fc.weight").shape, (Shape{3, 2}));
  EXPECT_EQ(graph.values.at(graph.outputs.at(0)).name, "y");
  EXPECT_EQ(graph.values.at(graph.outputs.at(0)).shape, Shape{3});
}

TEST(Hostile, Header) {
  Bytes file = file_of({});
  const auto patched = [&file](std::size_t offset, unsigned value) {
    Bytes copy = file;
    copy[offset] = static_cast<std::byte>(value);
    test::reseal(copy);
    return copy;
  };
  expect_refused(patched(0, 'P'), "no podaq file");
  expect_refused(patched(8, 0), "version 0");
  expect_refused(patched(9, 1), "version 257");
  expect_refused(patched(10, 65), "65 sections");
  expect_refused(patched(10, 1), "bytes follow the last section");
  expect_refused(patched(12, 1), "required feature 0");
  expect_refused(patched(14, 0x10), "required feature 20");
  expect_refused(patched(52, 0), "kind 0");
  expect_refused(patched(52, 9), "out of order");
  expect_refused(patched(53, 77), "coder 77");
  EXPECT_NO_THROW((void)decode(patched(16, 0xFF))) << "optional features may be ignored";
}

TEST(Hostile, SectionSizes) {
  const Bytes graph = make_table({});
  // A stored size that reaches past the end, and one whose sum with the offset wraps round 64 bits.
  for (const std::uint64_t stored : {std::uint64_t{1} << 20, std::numeric_limits<std::uint64_t>::max() - 60}) {
    Bytes file;
    format::append(file, format::magic);
    format::append_number(file, format::current_version);
    format::append_number(file, std::uint16_t{1});
    format::append_number(file, std::uint64_t{0});
    format::append(file, Sha256Digest{});
    format::append_number(file, SectionKind::graph);
    format::append_number(file, Coder::raw);
    format::append_number(file, std::uint32_t{0});
    format::append_varint(file, stored);
    format::append_varint(file, stored);
    format::append(file, graph);
    test::reseal(file);
    expect_refused(file, "section 'graph' at offset");
  }
}

TEST(Hostile, VarintBeyond64Bits) {
  Bytes file = file_of({});
  file.resize(58);
  file.resize(58 + 11, std::byte{0xFF});
  test::reseal(file);
  expect_refused(file, "does not fit 64 bits");
}

TEST(Hostile, UnknownSections) {
  const Bytes extra = floats(3);
  const auto with_kind = [&extra](int kind) {
    return seal({{SectionKind::graph, make_table({})},
                 {SectionKind::floats, floats(6)},
                 {static_cast<SectionKind>(kind), extra}});
  };
  expect_refused(with_kind(100), "kind 100");
  EXPECT_EQ(decode(with_kind(200)), decode(file_of({}))) << "optional sections are skipped";
}

TEST(Hostile, MissingAndSurplusSections) {
  expect_refused(seal({}), "no section 'graph'");
  expect_refused(seal({{SectionKind::floats, floats(6)}}), "no section 'graph'");
  expect_refused(file_of({}, 0), "no section 'floats'");
  expect_refused(file_of({}, 5), "decoded size is 20, the graph needs 24");
  expect_refused(file_of({}, 7), "decoded size is 28, the graph needs 24");
  expect_refused(
      seal({{SectionKind::graph, make_table({})}, {SectionKind::floats, floats(6)}, {SectionKind::scales, floats(1)}}),
      "section 'scales'");
}

TEST(Hostile, DecodedSizeBombs) {
  // A frame of a gigabyte of zeros takes some tens of kilobytes; here only its declared size is huge.
  const Bytes graph = make_table({});
  const Bytes numbers = floats(6);
  const Section bomb{.kind = SectionKind::floats,
                     .coder = Coder::zstd,
                     .checksum = 0,
                     .offset = 0,
                     .decoded_bytes = std::uint64_t{1} << 62,
                     .stored = numbers};
  Section table{.kind = SectionKind::graph,
                .coder = Coder::raw,
                .checksum = 0,
                .offset = 0,
                .decoded_bytes = graph.size(),
                .stored = graph};
  expect_refused(file_of_sections({table, bomb}), "bytes allowed");
  for (const std::uint64_t size : {std::uint64_t{1} << 27, std::uint64_t{1} << 62}) {
    table.coder = Coder::zstd;
    table.decoded_bytes = size;
    expect_refused(file_of_sections({table}), "section 'graph'");
  }
  table.coder = Coder::adaptive;
  table.decoded_bytes = format::most_adaptive_bytes + 1;
  expect_refused(file_of_sections({table}), "adaptive coder");
}

TEST(Hostile, StreamsThatDecodeToAnotherSize) {
  const Bytes graph = make_table({});
  const Section table{.kind = SectionKind::graph,
                      .coder = Coder::raw,
                      .checksum = 0,
                      .offset = 0,
                      .decoded_bytes = graph.size(),
                      .stored = graph};
  const auto with_floats = [&](Coder coder, std::span<const std::byte> stored) {
    return file_of_sections({table, Section{.kind = SectionKind::floats,
                                            .coder = coder,
                                            .checksum = 0,
                                            .offset = 0,
                                            .decoded_bytes = 24,
                                            .stored = stored}});
  };
  for (const std::size_t count : {0, 1, 5, 7, 100000}) {
    SCOPED_TRACE(count);
    const Bytes numbers = floats(count);
    Bytes frame(ZSTD_compressBound(numbers.size()));
    frame.resize(ZSTD_compress(frame.data(), frame.size(), numbers.data(), numbers.size(), 3));
    expect_refused(with_floats(Coder::zstd, std::span(frame).subspan(4)), "section 'floats'");
    expect_refused(with_floats(Coder::planes_zstd, std::span(frame).subspan(4)), "section 'floats'");
    if (count != 6) expect_refused(with_floats(Coder::raw, numbers), "section 'floats'");
  }
  Bytes adaptive = format::encode_adaptive(SectionKind::floats, floats(6), {});
  EXPECT_NO_THROW((void)decode(with_floats(Coder::adaptive, adaptive)));
  adaptive.resize(adaptive.size() + 40, std::byte{7});
  expect_refused(with_floats(Coder::adaptive, adaptive), "bytes follow");
}

TEST(Hostile, HugeDimensions) {
  expect_refused(file_of({.weight_shape = {huge, huge, huge}}), "overflows");
  expect_refused(file_of({.weight_shape = {huge, 2}}), "bytes allowed");
  expect_refused(file_of({.input_size = huge, .weight_shape = {huge, huge}}), "overflows");
  expect_refused(file_of({.input_size = huge, .weight_shape = {3, huge}}), "bytes allowed");
  expect_refused(file_of({.input_size = huge, .weight_shape = {3, huge}, .masked = true}), "bytes allowed");
  expect_refused(file_of({.input_shape = std::vector<std::uint32_t>(9, 1)}), "rank 9");
  expect_refused(file_of({.input_shape = std::vector<std::uint32_t>(100000, 1)}), "rank 100000");
}

TEST(Hostile, Edges) {
  expect_refused(file_of({.distances = {0}}), "0 values back");              // Reads itself: a cycle.
  expect_refused(file_of({.distances = {huge}}), "4294967295 values back");  // Reads what comes after it.
  expect_refused(file_of({.distances = {2}}), "2 values back");
  expect_refused(file_of({.distances = {}}), "", ErrorCode::graph);
  expect_refused(file_of({.distances = {1, 1, 1}}), "", ErrorCode::graph);
  expect_refused(file_of({.output = 0}), "value 0");
  expect_refused(file_of({.output = 2}), "value 2");
  expect_refused(file_of({.ids = {0}}), "1 ids for 2 values");
  expect_refused(file_of({.ids = {0, 0}}), "id 0");
  expect_refused(file_of({.ids = {0, 2}}), "id 2");
}

TEST(Hostile, Tensors) {
  expect_refused(file_of({.dtype = 9}), "dtype");
  expect_refused(file_of({.scales = 7}), "scales");
  expect_refused(file_of({.describes_weight = false}), "not described");
  expect_refused(file_of({.tensor_copies = 9}), "9 tensors");
  expect_refused(file_of({.tensor_copies = 3}), "", ErrorCode::graph);
  expect_refused(file_of({.weight_shape = {}, .dtype = 2, .scales = 2}), "no channels");
  // i32 weights under a float input: the numbers fit, the meaning does not.
  expect_refused(seal({{SectionKind::graph, make_table({.dtype = 3})}, {SectionKind::integers, Bytes(24)}}), "weight",
                 ErrorCode::graph);
  for (const std::uint8_t bits : {0, 1, 9, 255}) {
    test::SectionBytes sections = {{SectionKind::graph, make_table({.dtype = 2, .bits = bits, .scales = 1})},
                                   {SectionKind::scales, floats(1)}};
    sections[bits <= 4 ? SectionKind::packed_codes : SectionKind::codes] = Bytes(bits <= 4 ? 3 : 6);
    expect_refused(seal(sections), "bits", ErrorCode::graph);
  }
}

TEST(Hostile, CodesOutsideTheirBits) {
  const auto with_code = [](int code) {
    return seal({{SectionKind::graph, make_table({.dtype = 2, .scales = 1})},
                 {SectionKind::codes, Bytes(6, static_cast<std::byte>(code))},
                 {SectionKind::scales, floats(1)}});
  };
  expect_refused(with_code(-128), "code -128", ErrorCode::graph);
}

TEST(Hostile, Scales) {
  for (const float scale :
       {0.0F, -1.0F, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1e-42F}) {
    Bytes scales;
    format::append_number(scales, scale);
    expect_refused(seal({{SectionKind::graph, make_table({.dtype = 2, .scales = 1})},
                         {SectionKind::codes, Bytes(6)},
                         {SectionKind::scales, scales}}),
                   "scale", ErrorCode::graph);
  }
}

TEST(Hostile, Masks) {
  const auto masked = [](unsigned mask, std::size_t float_count) {
    return seal({{SectionKind::graph, make_table({.masked = true})},
                 {SectionKind::masks, Bytes(1, static_cast<std::byte>(mask))},
                 {SectionKind::floats, floats(float_count)}});
  };
  const Graph graph = decode(masked(0b101001, 3));
  const auto weight = elements<float>(graph.tensors.at("fc.weight"));
  EXPECT_EQ(std::vector<float>(weight.begin(), weight.end()), (std::vector<float>{1.5F, 0, 0, 1.5F, 0, 1.5F}));
  expect_refused(masked(0b101001, 2), "the graph needs 12");
  expect_refused(masked(0b101001, 4), "the graph needs 12");
  expect_refused(masked(0b1101001, 3), "bits behind the last element");
  expect_refused(masked(0b1101001, 4), "bits behind the last element");
  expect_refused(seal({{SectionKind::graph, make_table({.masked = true})},
                       {SectionKind::masks, Bytes(1, std::byte{1})},
                       {SectionKind::floats, Bytes(4)}}),
                 "the masks keep is zero");
}

TEST(Hostile, Names) {
  expect_refused(file_of({.node_name = ""}), "name", ErrorCode::graph);
  expect_refused(file_of({.node_name = "\xC0\xAF"}), "UTF-8", ErrorCode::graph);
  expect_refused(file_of({.weight_name = "\xED\xA0\x80"}), "UTF-8", ErrorCode::graph);
  expect_refused(file_of({.metadata = {{"a", "\xFF"}}}), "UTF-8", ErrorCode::graph);
  expect_refused(file_of({.metadata = {{"a", "1"}, {"a", "2"}}}), "'a' is a duplicate");
  expect_refused(file_of({.metadata = {{"b", "1"}, {"a", "2"}}}), "out of order");
}

TEST(Hostile, OpsUnknownToThisVersion) {
  // The verifier lets a union's unknown members through; the reader must not.
  expect_refused(file_of({.op_type = 99}), "op 99");
  expect_refused(file_of({.op_type = 0}), "section 'graph'");
}

// One object in many places: a small table must not become a huge graph.
TEST(Hostile, SharedObjects) {
  expect_refused(file_of({.nodes = 2}), "used twice");
  expect_refused(file_of({.nodes = 100000}), "section 'graph'");
}

// Any graph section at all: the verifier and the reader must take or refuse it, and sanitizers stay silent.
TEST(Hostile, RandomlyPatchedTables) {
  const Bytes good = make_table({.ids = {0, 1}, .metadata = {{"a", "1"}, {"b", "2"}}});
  const Bytes numbers = floats(6);
  std::size_t refused = 0;
  for (std::size_t i = 0; i < good.size(); ++i)
    for (const unsigned value : {0U, 1U, 4U, 0x7FU, 0x80U, 0xFFU}) {
      Bytes table = good;
      table[i] = static_cast<std::byte>(value);
      try {
        (void)decode(seal({{SectionKind::graph, table}, {SectionKind::floats, numbers}}));
      } catch (const Error& error) {
        EXPECT_TRUE(error.code() == ErrorCode::format || error.code() == ErrorCode::graph) << error.what();
        ++refused;
      }
    }
  EXPECT_GT(refused, good.size());
}

// Stored bytes of every coder, patched: decoders must stay within their bounds.
TEST(Hostile, RandomlyPatchedStreams) {
  test::Draws draws(4);
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const Bytes good = encode(remove_unused(test::random_integer_graph(seed)));
    const auto container = format::read_container(good);
    for (int trial = 0; trial < 100; ++trial) {
      std::vector<Section> sections = container.sections;
      const auto victim = static_cast<std::size_t>(draws.integer(0, static_cast<std::int64_t>(sections.size()) - 1));
      Bytes stored(sections[victim].stored.begin(), sections[victim].stored.end());
      for (std::int64_t patches = draws.integer(1, 4); patches > 0; --patches)
        stored[static_cast<std::size_t>(draws.integer(0, static_cast<std::int64_t>(stored.size()) - 1))] =
            static_cast<std::byte>(draws.integer(0, 255));
      if (draws.chance(0.2)) stored.resize(stored.size() / 2);
      sections[victim].stored = stored;
      try {
        (void)decode(file_of_sections(sections));
      } catch (const Error& error) {
        EXPECT_TRUE(error.code() == ErrorCode::format || error.code() == ErrorCode::graph) << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace podaq
