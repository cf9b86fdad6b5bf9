#include <ATen/Context.h>
#include <gtest/gtest.h>

namespace podaq::testing {
namespace {

// LibTorch's default generator starts from a seed of the operating system's: without this, each run of a test would
// meet other weights, and one in many would fail where another passed.
class FixedSeed : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo&) override { at::manual_seed(1); }
};

// The listeners own it.
[[maybe_unused]] const bool is_installed = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new FixedSeed);
  return true;
}();

}  // namespace
}  // namespace podaq::testing
