#pragma once

namespace podaq {

/// While one lives, the first SIGINT (Ctrl-C) or SIGTERM only asks long work to stop; the second ends the program at
/// once, as if podaq had no handler. The handlers found are put back when the outermost scope ends, and a request ends
/// with it. A signal that the program ignores (as under nohup) stays ignored. Scopes nest; make them on one thread.
class CancellationScope {
 public:
  CancellationScope();
  ~CancellationScope();
  CancellationScope(const CancellationScope&) = delete;
  CancellationScope& operator=(const CancellationScope&) = delete;
};

/// Whether the user has asked to stop since the outermost scope began.
[[nodiscard]] bool cancellation_requested() noexcept;

/// Throws Error(cancelled) if the user has asked to stop. Long work calls this where it can stop without harm.
void throw_if_cancelled();

}  // namespace podaq
