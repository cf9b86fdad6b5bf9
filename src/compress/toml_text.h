#pragma once

#include <fmt/format.h>

#include <span>
#include <string>

// Pieces of TOML that recipes are written with.
namespace podaq::compress_detail {

/// `text` as a basic string.
[[nodiscard]] inline std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\')
      result += fmt::format("\\{}", letter);
    else if (code < 0x20 || code == 0x7F)
      result += fmt::format("\\u{:04X}", static_cast<unsigned>(code));
    else
      result += letter;
  }
  return result + '"';
}

/// A list of basic strings.
[[nodiscard]] inline std::string list_of(std::span<const std::string> items) {
  std::string result;
  for (const std::string& item : items) result += (result.empty() ? "" : ", ") + quoted(item);
  return '[' + result + ']';
}

}  // namespace podaq::compress_detail
