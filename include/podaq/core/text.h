#pragma once

#include <charconv>
#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>

namespace podaq {

namespace text_detail {

inline void append(std::string& out, std::string_view piece) {
  out += piece;
}
inline void append(std::string& out, char piece) {
  out += piece;
}

// A template, so that the pointer of a string literal does not convert to bool.
template <std::same_as<bool> Bool>
void append(std::string& out, Bool piece) {
  out += piece ? "true" : "false";
}

template <typename Number>
requires(std::integral<Number> || std::floating_point<Number>) &&
    (!std::same_as<Number, bool>)&&(!std::same_as<Number, char>)void append(std::string& out, Number piece) {
  char digits[64];
  const auto result = std::to_chars(digits, digits + sizeof digits, piece);
  out.append(digits, result.ptr);
}

}  // namespace text_detail

/// Joins strings, characters and numbers (shortest form that reads back to the same number) into one string.
/// It exists so that the runtime needs neither iostreams nor a formatting library for its error texts.
template <typename... Pieces>
[[nodiscard]] std::string concat(const Pieces&... pieces) {
  std::string out;
  (text_detail::append(out, pieces), ...);
  return out;
}

}  // namespace podaq
