// What lies in the place of a cache changes how long loading takes, never what is loaded.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "podaq/c_api.h"
#include "podaq/core/atomic_file.h"
#include "podaq/core/error.h"
#include "podaq/core/file.h"
#include "podaq/core/sha256.h"
#include "podaq/core/version.h"
#include "podaq/graph/passes.h"
#include "runtime/support.h"
#include "support/small_graph.h"
#include "support/temporary_folder.h"

namespace podaq::test {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;

// Files hold no tensor that nothing uses.
Graph integer_graph(std::uint64_t seed) {
  return remove_unused(random_integer_graph(seed));
}
Graph float_graph(std::uint64_t seed) {
  return remove_unused(random_float_graph(seed));
}

constexpr std::size_t magic_bytes = 8;
constexpr std::size_t content_offset = 40;

Bytes read(const fs::path& path) {
  return read_file(path, std::uint64_t{1} << 30);
}

class ModelCache : public testing::Test {
 protected:
  void SetUp() override {
    save(graph_, file_);
    decoded_ = load(file_);
  }

  // What lies in the folder, by name.
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(temporary_.path())) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  // Writes the cache and returns it.
  Bytes warm() {
    fs::remove_all(cache_);
    EXPECT_EQ(load_cached(file_, cache_), decoded_);
    return read(cache_);
  }

  // Loads with `bytes` in the place of the cache: the right network comes, and the cache is right again afterwards.
  void expect_replaced(const Bytes& bytes, std::string_view what) {
    write_file_atomically(cache_, bytes);
    EXPECT_EQ(load_cached(file_, cache_), decoded_) << what;
    EXPECT_EQ(read(cache_), warm_) << what;
  }

  const Graph graph_ = integer_graph(7);
  TemporaryFolder temporary_;
  const fs::path file_ = temporary_.path() / "net.podaq";
  const fs::path cache_ = cache_beside(file_);
  Graph decoded_;
  Bytes warm_;
};

// The key of a cache, as its definition has it.
Sha256Digest key_of(std::string_view library_version, std::uint64_t cap, std::span<const std::byte> file) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(library_version)));
  hash.update(std::as_bytes(std::span(&cap, 1)));
  hash.update(file);
  return hash.digest();
}

Bytes with_key(Bytes cache, const Sha256Digest& key) {
  std::copy(key.begin(), key.end(), cache.begin() + magic_bytes);
  return cache;
}

// A cache that answers with another network, so that it shows whether it was asked.
Bytes answering(const Bytes& cache, const Graph& graph) {
  Bytes bytes(cache.begin(), cache.begin() + content_offset);
  const Bytes content = encode(graph, {.compression_level = 0});
  bytes.insert(bytes.end(), content.begin(), content.end());
  return bytes;
}

TEST_F(ModelCache, LiesBesideTheFile) {
  EXPECT_EQ(cache_beside("folder/net.podaq"), "folder/net.podaq.cache");
}

TEST_F(ModelCache, IsWrittenOnlyWhereAskedFor) {
  (void)load(file_);
  (void)Model::load(file_);
  podaq_model* model = nullptr;
  ASSERT_EQ(podaq_model_load(file_.c_str(), &model), podaq_status_ok);
  podaq_model_free(model);
  EXPECT_EQ(names(), std::vector<std::string>{"net.podaq"});
}

// 4 MB of random floats, which no coder shrinks and zstd decodes at once.
TEST_F(ModelCache, AFileThatIsDecodedFastGetsNone) {
  SmallGraph net({1, 1000});
  net.output(net.linear(net.input()));
  save(net.graph, file_, {.compression_level = 1});
  EXPECT_EQ(load_cached(file_, cache_), load(file_));
  EXPECT_EQ(names(), std::vector<std::string>{"net.podaq"});
}

TEST_F(ModelCache, ColdAndWarmRunToTheSameBits) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    save(seed % 2 == 0 ? integer_graph(seed) : float_graph(seed), file_);
    const Model plain = Model::load(file_);
    const Model cold = Model::load(file_, {.cache = cache_});
    const Bytes written = read(cache_);
    const Model warm = Model::load(file_, {.cache = cache_});
    EXPECT_EQ(read(cache_), written) << "the cache of the seed before is replaced, its own is not";
    EXPECT_EQ(warm.metadata(), plain.metadata());
    EXPECT_EQ(kernel_names(warm), kernel_names(plain));
    Draws draws(seed);
    const auto inputs = random_inputs(plain, 2, draws);
    const auto expected = run_model(plain, inputs, 2, 2);
    EXPECT_TRUE(same_bits(run_model(cold, inputs, 2, 2), expected));
    EXPECT_TRUE(same_bits(run_model(warm, inputs, 2, 2), expected));
  }
}

TEST_F(ModelCache, AnswersForItsFile) {
  // Without this, every other test here would pass with a cache that is never read.
  const Graph another = float_graph(3);
  write_file_atomically(cache_, answering(warm(), another));
  EXPECT_EQ(load_cached(file_, cache_), decode(encode(another)));
}

TEST_F(ModelCache, IsOfTheSizeOfItsNumbers) {
  std::uint64_t decoded_bytes = 0;
  for (const FileReport::Section& section : inspect(read(file_)).sections) decoded_bytes += section.decoded_bytes;
  const std::size_t size = warm().size();
  EXPECT_GE(size, content_offset + decoded_bytes);
  EXPECT_LE(size, content_offset + decoded_bytes + 200);
}

TEST_F(ModelCache, DamagedAnywhereIsReplaced) {
  warm_ = warm();
  for (std::size_t offset = magic_bytes; offset < warm_.size(); offset += 1 + offset / 16) {
    Bytes damaged = warm_;
    damaged[offset] ^= std::byte{0x10};
    expect_replaced(damaged, std::to_string(offset));
  }
}

TEST_F(ModelCache, CutOrLengthenedIsReplaced) {
  warm_ = warm();
  for (std::size_t size = magic_bytes; size < warm_.size(); size += 1 + size / 8)
    expect_replaced(Bytes(warm_.begin(), warm_.begin() + static_cast<std::ptrdiff_t>(size)), std::to_string(size));
  expect_replaced({}, "empty");
  Bytes longer = warm_;
  longer.push_back(std::byte{0});
  expect_replaced(longer, "longer");
}

TEST_F(ModelCache, OfAnotherFileVersionOrCapIsReplaced) {
  warm_ = warm();
  const Bytes file = read(file_);
  const Bytes foreign = answering(warm_, float_graph(3));
  const std::uint64_t cap = ReadOptions{}.max_decoded_bytes;
  ASSERT_EQ(with_key(warm_, key_of(version, cap, file)), warm_) << "the key is what it says it is";
  Bytes other_file = file;
  other_file.back() ^= std::byte{1};
  expect_replaced(with_key(foreign, key_of(version, cap, other_file)), "file");
  expect_replaced(with_key(foreign, key_of("0.0.9", cap, file)), "version");
  expect_replaced(with_key(foreign, key_of(version, cap + 1, file)), "cap");
}

TEST_F(ModelCache, AChangedFileIsDecodedAgain) {
  (void)warm();
  const Graph changed = integer_graph(8);
  save(changed, file_);
  EXPECT_EQ(load_cached(file_, cache_), decode(encode(changed)));
  EXPECT_EQ(load_cached(file_, cache_), decode(encode(changed)));
}

TEST_F(ModelCache, AFileThatIsDamagedIsRefusedDespiteItsCache) {
  (void)warm();
  Bytes file = read(file_);
  file.back() ^= std::byte{1};
  write_file_atomically(file_, file);
  const Bytes cache = read(cache_);
  try {
    (void)load_cached(file_, cache_);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::format);
    EXPECT_NE(std::string_view(error.what()).find(file_.string()), std::string_view::npos) << error.what();
  }
  EXPECT_EQ(read(cache_), cache) << "a file that is refused changes no cache";
}

TEST_F(ModelCache, AMissingFileIsRefusedDespiteItsCache) {
  (void)warm();
  fs::remove(file_);
  EXPECT_THROW((void)load_cached(file_, cache_), Error);
}

TEST_F(ModelCache, TheCapHoldsWithAWarmCache) {
  (void)warm();
  EXPECT_THROW((void)load_cached(file_, cache_, {.max_decoded_bytes = 1000}), Error);
  EXPECT_EQ(load_cached(file_, cache_, {.max_decoded_bytes = ~std::uint64_t{0}}), decoded_);
  EXPECT_EQ(load_cached(file_, cache_, {.max_decoded_bytes = ~std::uint64_t{0}}), decoded_);
}

// The right key, a content that the reader must refuse.
TEST_F(ModelCache, AHostileContentIsRefusedAndReplaced) {
  warm_ = warm();
  const Bytes header(warm_.begin(), warm_.begin() + content_offset);
  Bytes noise = header;
  for (int i = 0; i < 1000; ++i) noise.push_back(static_cast<std::byte>(i * 37));
  expect_replaced(noise, "noise");
  expect_replaced(header, "nothing");
  Bytes nested = header;
  nested.insert(nested.end(), warm_.begin(), warm_.end());
  expect_replaced(nested, "a cache in a cache");
  // A section that claims to decode to more than memory holds.
  Bytes claiming = warm_;
  for (std::size_t offset = content_offset + 52 + 6; offset < content_offset + 52 + 16; ++offset)
    claiming[offset] = std::byte{0xFF};
  expect_replaced(claiming, "a claim");
}

TEST_F(ModelCache, WhatIsNoCacheIsLeftAlone) {
  const std::string text = "someone's notes, long enough to be taken for a cache by its size alone";
  const auto notes = std::as_bytes(std::span(text));
  write_file_atomically(cache_, notes);
  EXPECT_EQ(load_cached(file_, cache_), decoded_);
  EXPECT_EQ(read(cache_), Bytes(notes.begin(), notes.end()));

  const Bytes file = read(file_);
  EXPECT_EQ(load_cached(file_, file_), decoded_) << "the file as its own cache";
  EXPECT_EQ(read(file_), file);

  fs::remove(cache_);
  fs::create_directory(cache_);
  EXPECT_EQ(load_cached(file_, cache_), decoded_) << "a folder";
  EXPECT_TRUE(fs::is_directory(cache_));
  fs::remove(cache_);
  ASSERT_EQ(::mkfifo(cache_.c_str(), 0600), 0);
  EXPECT_EQ(load_cached(file_, cache_), decoded_) << "a pipe";
  EXPECT_TRUE(fs::is_fifo(cache_));
}

TEST_F(ModelCache, WhereItCannotLieIsSilent) {
  for (const fs::path& place : {temporary_.path() / "none" / "cache", file_ / "cache", fs::path("/dev/null"),
                                temporary_.path() / std::string(300, 'x'), fs::path("/proc/podaq.cache")})
    EXPECT_EQ(load_cached(file_, place), decoded_) << place;
  EXPECT_EQ(names(), std::vector<std::string>{"net.podaq"});
}

// Nobody, for a while, where the tests run as root, who may read and write everything.
class Unprivileged {
 public:
  explicit Unprivileged(const fs::path& folder) : is_root_(::geteuid() == 0) {
    constexpr uid_t nobody = 65534;
    if (!is_root_) return;
    for (const auto& path : {folder, folder / "net.podaq", folder / "net.podaq.cache"})
      EXPECT_EQ(::chown(path.c_str(), nobody, static_cast<gid_t>(-1)), 0) << path;
    EXPECT_EQ(::seteuid(nobody), 0);
  }
  Unprivileged(const Unprivileged&) = delete;
  Unprivileged& operator=(const Unprivileged&) = delete;
  ~Unprivileged() {
    if (!is_root_) return;
    EXPECT_EQ(::seteuid(0), 0);
  }

 private:
  bool is_root_;
};

TEST_F(ModelCache, WithoutPermissionsIsSilent) {
  (void)warm();
  const Unprivileged unprivileged(temporary_.path());
  fs::permissions(cache_, fs::perms::none);
  EXPECT_THROW((void)read(cache_), Error);
  EXPECT_EQ(load_cached(file_, cache_), decoded_) << "it cannot be read";
  fs::remove(cache_);
  fs::permissions(temporary_.path(), fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_EQ(load_cached(file_, cache_), decoded_) << "its folder cannot be written";
  EXPECT_EQ(names(), std::vector<std::string>{"net.podaq"});
  fs::permissions(temporary_.path(), fs::perms::owner_all);
}

TEST_F(ModelCache, HasThePermissionsOfTheFile) {
  fs::permissions(file_, fs::perms{0640});
  (void)warm();
  EXPECT_EQ(fs::status(cache_).permissions(), fs::perms{0640});
  fs::permissions(file_, fs::perms{0700});
  write_file_atomically(cache_, {});
  EXPECT_EQ(load_cached(file_, cache_), decoded_);
  EXPECT_EQ(fs::status(cache_).permissions(), fs::perms{0600}) << "nobody who may not read the file reads its numbers";
}

TEST_F(ModelCache, TheCInterfaceKeepsItBesideTheFile) {
  for (const char* when : {"cold", "warm"}) {
    podaq_model* model = nullptr;
    ASSERT_EQ(podaq_model_load_cached(file_.c_str(), &model), podaq_status_ok) << when << ": " << podaq_last_error();
    EXPECT_EQ(podaq_model_input_count(model), graph_.inputs.size());
    podaq_model_free(model);
    EXPECT_EQ(names(), (std::vector<std::string>{"net.podaq", "net.podaq.cache"}));
  }
  podaq_model* model = nullptr;
  EXPECT_EQ(podaq_model_load_cached(nullptr, &model), podaq_status_invalid_argument);
  EXPECT_EQ(podaq_model_load_cached(file_.c_str(), nullptr), podaq_status_invalid_argument);
  EXPECT_EQ(podaq_model_load_cached((file_ / "none").c_str(), &model), podaq_status_io);
}

}  // namespace
}  // namespace podaq::test
