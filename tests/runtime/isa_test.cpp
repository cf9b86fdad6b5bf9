#include "runtime/isa.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "podaq/core/error.h"
#include "runtime/support.h"

namespace podaq::test {
namespace {

using runtime_detail::choose_isa;
using runtime_detail::require_isa;

constexpr CpuFeatures everything{.avx2 = true,
                                 .fma = true,
                                 .avxvnni = true,
                                 .avx512f = true,
                                 .avx512bw = true,
                                 .avx512dq = true,
                                 .avx512vl = true,
                                 .avx512vnni = true,
                                 .amxint8 = true};

CpuFeatures without(bool CpuFeatures::*feature) {
  CpuFeatures features = everything;
  features.*feature = false;
  return features;
}

// What the call throws: its code and text.
template <typename Call>
std::optional<Error> error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

// Sets PODAQ_FORCE_ISA for a scope.
class ForcedIsa {
 public:
  explicit ForcedIsa(const char* word) {
    if (const char* before = std::getenv("PODAQ_FORCE_ISA")) before_ = before;
    setenv("PODAQ_FORCE_ISA", word, 1);
  }
  ~ForcedIsa() {
    if (before_)
      setenv("PODAQ_FORCE_ISA", before_->c_str(), 1);
    else
      unsetenv("PODAQ_FORCE_ISA");
  }
  ForcedIsa(const ForcedIsa&) = delete;
  ForcedIsa& operator=(const ForcedIsa&) = delete;

 private:
  std::optional<std::string> before_;
};

TEST(Isa, TheWidestThatTheCpuOffersIsChosen) {
  EXPECT_EQ(choose_isa("", everything), Isa::amx);
  EXPECT_EQ(choose_isa("", without(&CpuFeatures::amxint8)), Isa::avx512);
  EXPECT_EQ(choose_isa("", without(&CpuFeatures::avx512vnni)), Isa::avxvnni);
  EXPECT_EQ(choose_isa("", {.avx2 = true}), Isa::avx2);
  EXPECT_EQ(choose_isa("", {}), Isa::reference);
}

// C41: AVX-512F alone is not enough, whatever else is there.
TEST(Isa, Avx512NeedsEachOfItsFiveParts) {
  for (const auto feature : {&CpuFeatures::avx512f, &CpuFeatures::avx512bw, &CpuFeatures::avx512dq,
                             &CpuFeatures::avx512vl, &CpuFeatures::avx512vnni})
    EXPECT_EQ(choose_isa("", without(feature)), Isa::avxvnni);
}

TEST(Isa, ForcingAnUnsupportedSetNamesTheMissingFeature) {
  const auto text = [](std::string_view forced, const CpuFeatures& features) {
    const auto error = error_of([&] { static_cast<void>(choose_isa(forced, features)); });
    return error && error->code() == ErrorCode::unsupported ? std::string(error->what()) : std::string("no error");
  };
  EXPECT_NE(text("amx", without(&CpuFeatures::amxint8)).find("AMX-INT8"), std::string::npos);
  EXPECT_NE(text("amx", without(&CpuFeatures::avx512vl)).find("AVX-512VL"), std::string::npos);
  EXPECT_NE(text("avx512", without(&CpuFeatures::avx512vnni)).find("AVX-512VNNI"), std::string::npos);
  EXPECT_NE(text("avx512", without(&CpuFeatures::avx512bw)).find("AVX-512BW"), std::string::npos);
  EXPECT_NE(text("avxvnni", without(&CpuFeatures::avxvnni)).find("AVX-VNNI"), std::string::npos);
  EXPECT_NE(text("avx2", {}).find("AVX2"), std::string::npos);
  EXPECT_EQ(choose_isa("reference", {}), Isa::reference);
  EXPECT_EQ(choose_isa("avx2", everything), Isa::avx2);
  EXPECT_EQ(choose_isa("avx512", everything), Isa::avx512);
}

TEST(Isa, AnotherWordIsRefusedWithTheAllowedOnes) {
  const auto error = error_of([] { static_cast<void>(choose_isa("avx512vnni", everything)); });
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), ErrorCode::invalid_argument);
  EXPECT_NE(std::string(error->what()).find("'avx512vnni'"), std::string::npos);
  EXPECT_NE(std::string(error->what()).find("reference, avx2, avxvnni, avx512 or amx"), std::string::npos);
}

TEST(Isa, TheEnvironmentVariableForcesTheSetOfNewModels) {
  const Graph graph = random_integer_graph(5);
  for (const Isa isa : runnable_isas()) {
    const ForcedIsa forced(std::string(name_of(isa)).c_str());
    EXPECT_EQ(selected_isa(), isa);
    EXPECT_EQ(Model(graph).isa(), isa);
  }
  const ForcedIsa forced("sse");
  EXPECT_THROW(Model{graph}, Error);
}

TEST(Isa, KernelsOfAnotherSetThanTheForcedOneAreNotUsed) {
  for (const Isa isa : runnable_isas())
    for (std::uint64_t seed = 0; seed < 20; ++seed)
      for (const KernelChoice& choice : Model(random_integer_graph(seed), {.read = {}, .isa = isa}).kernels()) {
        if (isa < Isa::amx) {
          EXPECT_NE(choice.kernel.substr(0, 3), "amx") << choice.node << " " << choice.kernel;
        }
        if (isa < Isa::avx512) {
          EXPECT_NE(choice.kernel.substr(0, 6), "avx512") << choice.node << " " << choice.kernel;
        }
      }
}

}  // namespace
}  // namespace podaq::test
