// The libFuzzer target of the file reader: what it takes, the runtime packs and runs. See docs/hacking.md.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>

#include "format/container.h"
#include "format/declared_size.h"
#include "fuzz/mutate_file.h"
#include "fuzz/peak_memory.h"
#include "fuzz/run_graph.h"
#include "podaq/core/error.h"
#include "podaq/format/file.h"

namespace podaq::fuzz {
namespace {

// Small, so that a file cannot keep the fuzzer busy for long.
constexpr ReadOptions options{.max_decoded_bytes = std::uint64_t{1} << 22};

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

// The graph, or nothing where the file is refused for a reason that it may be refused for. Any other exception is a
// finding.
std::optional<Graph> read(std::span<const std::byte> file) {
  try {
    return decode(file, options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::format && error.code() != ErrorCode::graph) fail("refused with a wrong code");
    return std::nullopt;
  }
}

bool can_inspect(std::span<const std::byte> file) {
  try {
    static_cast<void>(inspect(file));
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::format) fail("inspect: refused with a wrong code");
    return false;
  }
}

// The promise of podaq/format/file.h. What a refused file declares may be more than was ever decoded.
void check_memory(std::span<const std::byte> file, const std::optional<Graph>& graph, std::size_t held) {
  const std::uint64_t declared = graph ? test::declared_size(file, *graph) : options.max_decoded_bytes;
  if (declared > options.max_decoded_bytes) fail("a file that declares more than the cap was read");
  if (held <= file.size() + declared + test::fixed_decoding_bytes) return;
  std::fprintf(stderr, "reading %zu bytes that declare %zu held %zu\n", file.size(), static_cast<std::size_t>(declared),
               held);
  std::abort();
}

// The coders that the writer tries take longer than all else, so that only one file in sixteen, by its SHA-256, is
// written again.
bool is_chosen_for_round_trip(std::span<const std::byte> file) {
  return std::to_integer<unsigned>(file[format::sha256_offset]) % 16 == 0;
}

void check_round_trip(const Graph& graph) {
  for (const int level : {0, 1})
    if (decode(encode(graph, {.compression_level = level}), options) != graph)
      fail("written and read, the graph differs");
}

void test_one(std::span<const std::byte> file) {
  const PeakMemory peak;
  const std::optional<Graph> graph = read(file);
  const std::size_t held = peak.bytes();
  const bool is_inspectable = can_inspect(file);
  check_memory(file, graph, held);
  if (!graph) return;
  if (!is_inspectable) fail("a file that cannot be inspected was read");
  if (is_chosen_for_round_trip(file)) check_round_trip(*graph);
  if (is_small(*graph)) run_everywhere(*graph);
}

}  // namespace
}  // namespace podaq::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  podaq::fuzz::test_one(std::as_bytes(std::span(data, size)));
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned int seed) {
  return podaq::fuzz::mutate_file(std::as_writable_bytes(std::span(data, max_size)), size, seed);
}
