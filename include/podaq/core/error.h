#pragma once

#include <stdexcept>
#include <string>

namespace podaq {

/// What kind of fault an `Error` reports; the text says which, where, and what to do about it.
enum class ErrorCode {
  invalid_argument,  ///< An option or argument is outside its allowed range.
  unsupported,       ///< The request is understood but not offered (an operation, a CPU feature, a file feature).
  capture,           ///< A module cannot be captured, or the captured network disagrees with it.
  graph,             ///< A graph breaks a rule of the verifier.
  format,            ///< A file or byte sequence is malformed.
  recipe,            ///< A recipe is malformed or does not fit the network.
  io,                ///< The operating system refused to read or write.
  cancelled,         ///< The user asked to stop (Ctrl-C).
};

/// The one exception type that podaq throws on purpose.
class Error : public std::runtime_error {
 public:
  /// @param text  what is wrong, where, and what to do about it.
  Error(ErrorCode code, const std::string& text) : std::runtime_error(text), code_(code) {}

  /// What kind of fault it is.
  [[nodiscard]] ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace podaq
