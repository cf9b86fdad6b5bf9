#include "podaq/core/cancellation.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "podaq/core/error.h"

namespace podaq {
namespace {

void (*handler_of(int signal))(int) {
  struct sigaction action {};
  ::sigaction(signal, nullptr, &action);
  return action.sa_handler;
}

TEST(Cancellation, FirstSignalOnlyAsks) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const CancellationScope scope;
    EXPECT_FALSE(cancellation_requested());
    EXPECT_NO_THROW(throw_if_cancelled());
    ASSERT_EQ(::raise(signal), 0);
    EXPECT_TRUE(cancellation_requested());
    try {
      throw_if_cancelled();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::cancelled);
    }
  }
}

TEST(Cancellation, RequestEndsWithTheOutermostScope) {
  {
    const CancellationScope outer;
    {
      const CancellationScope inner;
      ASSERT_EQ(::raise(SIGINT), 0);
    }
    EXPECT_TRUE(cancellation_requested());
  }
  EXPECT_FALSE(cancellation_requested());
  EXPECT_NO_THROW(throw_if_cancelled());
}

TEST(Cancellation, PutsHandlersBack) {
  const auto own = [](int) {};
  const auto before = ::signal(SIGINT, own);
  {
    const CancellationScope scope;
    EXPECT_NE(handler_of(SIGINT), +own);
    ASSERT_EQ(::raise(SIGINT), 0);
  }
  EXPECT_EQ(handler_of(SIGINT), +own);
  ::signal(SIGINT, before);
}

TEST(Cancellation, IgnoredSignalStaysIgnored) {
  const auto before = ::signal(SIGINT, SIG_IGN);
  {
    const CancellationScope scope;
    ASSERT_EQ(::raise(SIGINT), 0);
    EXPECT_FALSE(cancellation_requested());
  }
  ::signal(SIGINT, before);
}

TEST(CancellationDeathTest, SecondSignalEndsTheProgram) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto interrupt_twice = [] {
    ::signal(SIGINT, SIG_DFL);
    const CancellationScope scope;
    ::raise(SIGINT);
    ::raise(SIGINT);
  };
  EXPECT_EXIT(interrupt_twice(), testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace podaq
