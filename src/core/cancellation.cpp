#include "podaq/core/cancellation.h"

#include <signal.h>

#include <array>
#include <atomic>

#include "podaq/core/error.h"

namespace podaq {
namespace {

constexpr std::array<int, 2> watched_signals = {SIGINT, SIGTERM};

std::atomic<bool> requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "the signal handler stores to it");

int scopes = 0;
std::array<struct sigaction, watched_signals.size()> found_actions;

extern "C" void request_cancellation(int /*signal*/) {
  requested.store(true, std::memory_order_relaxed);
  for (const int signal : watched_signals) ::signal(signal, SIG_DFL);
}

}  // namespace

CancellationScope::CancellationScope() {
  if (scopes++ > 0) return;
  requested.store(false, std::memory_order_relaxed);
  struct sigaction action {};
  action.sa_handler = request_cancellation;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : watched_signals) sigaddset(&action.sa_mask, signal);
  for (std::size_t i = 0; i < watched_signals.size(); ++i) {
    ::sigaction(watched_signals[i], nullptr, &found_actions[i]);
    if (found_actions[i].sa_handler != SIG_IGN) ::sigaction(watched_signals[i], &action, nullptr);
  }
}

CancellationScope::~CancellationScope() {
  if (--scopes > 0) return;
  for (std::size_t i = 0; i < watched_signals.size(); ++i) ::sigaction(watched_signals[i], &found_actions[i], nullptr);
  requested.store(false, std::memory_order_relaxed);
}

bool cancellation_requested() noexcept {
  return requested.load(std::memory_order_relaxed);
}

void throw_if_cancelled() {
  if (cancellation_requested()) throw Error(ErrorCode::cancelled, "stopped at the user's request");
}

}  // namespace podaq
